"""The results of a numerics study: precision map, value ranges, first NaN, divergence test, FP32 modules."""

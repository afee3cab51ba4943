"""Examines a model's numerics over a few steps: dtypes, value ranges, NaN and Inf, divergence from FP32."""

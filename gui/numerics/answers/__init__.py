"""The views whose answer is words: the first NaN, and the fewest FP32 modules."""

"""The views whose answer is words: the first NaN, the fewest FP32 modules, advice."""

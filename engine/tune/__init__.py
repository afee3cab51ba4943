"""Finds the fastest settings of an experiment by successive halving, and verifies them against plain FP32."""

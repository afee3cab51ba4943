"""The page of the runs of a comparison: live metrics and plots during training, then the result."""

"""Training and measuring with PyTorch. Only this package and the worker process import torch."""

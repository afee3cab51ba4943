"""Training and measuring with PyTorch. With the worker, it is the only part of Ammeter that imports torch."""

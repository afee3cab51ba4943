"""Training and measuring with PyTorch: with the worker the only part of Ammeter that imports torch."""

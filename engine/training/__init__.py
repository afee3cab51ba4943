"""Training and measuring with PyTorch: the only part of Ammeter, the worker apart, that imports torch."""

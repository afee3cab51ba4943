"""The main window: top bar, pages, choice of machine, state of PyTorch, and remembered settings."""

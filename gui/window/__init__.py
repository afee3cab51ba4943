"""The main window: top bar, pages, machines, PyTorch and remembered state."""

"""Installs PyTorch and its dependencies in the build for this machine's GPU. Imports neither torch nor Qt.

Ammeter's package has the window and uv. An installation is a folder of packages that the worker adds to its
path. A checkout with PyTorch in its environment does not need one.
"""

"""Installs PyTorch and its dependencies in the build for this machine's GPU. Imports neither torch nor Qt.

The window needs no PyTorch, so that it is installed later, into a folder of packages that the worker adds to
its path. A source checkout with PyTorch in its environment does not need one.
"""

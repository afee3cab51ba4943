"""The user's own models and data: Python files, library models, data files and folders. Runs no user code."""

"""The user's own models and data: code, names from libraries, files and folders. No code is run."""

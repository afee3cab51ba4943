"""The user's own models and data: code, library models, files and folders. No code is run here."""

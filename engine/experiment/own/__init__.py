"""What is read from the user's own files and folders of data."""

"""What is the user's own: models' code, names from libraries, files and folders of data; no code is run."""

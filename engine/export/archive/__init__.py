"""Runs whole, as a `.zip`: written here, and read as what it is, a file from anywhere."""

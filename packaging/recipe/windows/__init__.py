"""The package for Windows: an installer for one user, made with NSIS on Linux or Windows."""

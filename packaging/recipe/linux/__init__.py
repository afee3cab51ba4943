"""The packages for Linux: a .deb, the program in one file, and a Flatpak's sources."""

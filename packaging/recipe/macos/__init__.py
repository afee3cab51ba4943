"""The package for macOS: Ammeter.app, in a disk image where it is built on macOS, else in a zip archive."""

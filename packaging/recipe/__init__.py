"""Builds the installable packages of Ammeter for each system (.deb, single file, Flatpak, Windows, macOS).

A package contains a Python interpreter, the program, its dependencies and uv, but not PyTorch.
`tree.build_tree` builds the program's folder, which is the same for every system. `deb` and the other modules
package it.
"""

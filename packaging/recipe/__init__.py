"""The recipe of Ammeter's packages: an interpreter, the window, its dependencies and uv, and no torch.

`tree.build_tree` builds the program's folder, the same for every system; `deb` and the others package it.
"""

"""The engine's installation: torch and what it needs, fetched for the card that is there. No torch, no Qt.

The program's package holds the window and uv; an installation is a folder of packages that the worker adds to
its path. A checkout in which torch is installed needs none.
"""

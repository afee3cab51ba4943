"""The panels of the window. They never touch one another: the main window carries their signals."""

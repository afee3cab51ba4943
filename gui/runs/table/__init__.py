"""The table of saved runs: its lines, their order, its model and its view."""

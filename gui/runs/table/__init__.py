"""The table of saved results: its rows, columns, order, Qt model and view."""

"""Two recorded runs, replayed on one clock."""

"""A saved tuning as tables, data, a report, the picture of its gains, and the winner's script."""

"""What is measured of a run, without disturbing it."""

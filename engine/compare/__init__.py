"""Statistics over runs, and the verdict of a comparison."""

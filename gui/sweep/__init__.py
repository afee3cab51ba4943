"""The workspace Sweep: several values of settings trained in a grid, and the fastest settings found."""

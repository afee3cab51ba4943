"""Find the fastest in the workspace Sweep: what may be changed, the search as it goes on, and its outcome."""

"""Work of the engine other than runs: studies and sweeps."""

"""Work of the engine other than runs: searches, diagnoses, timings and sweeps."""

"""Work of the engine other than runs: searches, diagnoses and timings."""

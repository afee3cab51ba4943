"""The workspace Timing: where a step's time goes, side by side."""

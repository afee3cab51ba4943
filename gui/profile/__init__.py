"""The page Profile: where a step's time goes, side by side."""

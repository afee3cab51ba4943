"""The page Profile: where the time of a training step goes, for each precision side by side."""

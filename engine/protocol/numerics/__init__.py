"""The results of a numerics study, part by part."""

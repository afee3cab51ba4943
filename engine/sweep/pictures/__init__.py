"""The pictures of a sweep: a heat map, lines, and a scatter with its Pareto front."""

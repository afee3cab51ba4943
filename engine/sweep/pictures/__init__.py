"""The pictures of a sweep: a heat map, lines, a scatter with its Pareto front, parallel coordinates."""

"""Several values in the form: the grid of them, its cells, and what is known before they are trained."""

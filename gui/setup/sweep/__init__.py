"""The fields of a sweep in the form: its axes, its grid, and what is known of it before it starts."""

"""The model of the form: what its box offers, and a model that is the user's own file."""

"""The model field of the form: its list of models, and the user's own model file."""

"""The model field of the form: a searchable list of models, and the check of the user's own model file."""

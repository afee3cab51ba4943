"""The form of the question Compare scripts."""

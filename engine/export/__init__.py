"""Runs and comparisons in the forms that leave the program. Neither torch nor Qt here."""

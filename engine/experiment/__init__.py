"""What a user asks for and what a machine offers, as checked values."""

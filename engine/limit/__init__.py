"""The search for the largest batch that fits into memory."""

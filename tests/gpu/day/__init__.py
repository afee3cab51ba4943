"""What only a machine with a card can show: steps that measure and try, and a table of figures and aims."""

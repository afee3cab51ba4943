"""What is folded away below the figures: a tariff of electricity, and published figures."""

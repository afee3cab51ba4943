"""Where a step's time goes: profiles of one or several experiments, and what they say."""

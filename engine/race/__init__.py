"""Replays: two recorded runs on one clock, with their words, cards, and the pair of the demo."""

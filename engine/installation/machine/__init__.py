"""This machine, and the builds of torch that fit it."""

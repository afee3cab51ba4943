"""Studies of numerics, carried out by a worker and kept in the store."""

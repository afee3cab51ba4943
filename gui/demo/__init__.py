"""The place Demo."""

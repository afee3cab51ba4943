"""Models of timm and transformers: their names, their settings, and how they are built."""

"""Pictures as lists of shapes, and what paints them: SVG, PDF, bitmap."""

"""Charts as lists of shapes, independent of the output format, and their output as SVG, PDF and PNG."""

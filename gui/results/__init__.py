"""Show the page Results: all saved results at the left, the opened result at the right."""

"""A document in each format: web page, PDF, pictures, Markdown, LaTeX, CSV and JSON."""

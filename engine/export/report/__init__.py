"""The report of a comparison: web page, PDF, Markdown, LaTeX."""

"""The report of a comparison, with its charts, as a web page, PDF, Markdown or LaTeX."""

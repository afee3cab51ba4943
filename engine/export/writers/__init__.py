"""Writes a document in each format: web page, PDF, images, Markdown, LaTeX, CSV and JSON."""

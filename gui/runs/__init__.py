"""Show the table of saved results and the queue, and export and import runs."""

"""The table of saved results, the queue, and the export and import of runs."""

"""The page Results: the table of saved results on the left, the opened result on the right."""

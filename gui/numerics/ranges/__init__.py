"""The ranges of a model's numbers: words, histogram, table and loss scale."""

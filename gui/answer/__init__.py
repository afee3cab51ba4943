"""The page of a study: its answer as one sentence, and its document's sections in tabs."""

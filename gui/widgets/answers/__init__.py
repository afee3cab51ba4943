"""Pages whose answer is words: an answer with facts and remedies, and advice."""

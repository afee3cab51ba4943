"""The page Numerics: which module computes in which precision, and where precision is lost."""

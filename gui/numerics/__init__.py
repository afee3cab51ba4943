"""The page Numerics: the dtype in which each module computes, and where a precision loses accuracy."""

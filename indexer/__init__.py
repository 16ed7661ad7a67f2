"""Sources in, an immutable generation of an index out."""

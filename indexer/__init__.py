"""Sources in, an immutable index generation out."""

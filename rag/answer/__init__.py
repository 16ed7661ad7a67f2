"""Hits in, a written answer with citations out. An endpoint of a language model writes the text."""

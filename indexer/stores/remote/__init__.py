"""Generations in an object store or behind HTTP: uploaded to it, followed from it."""

"""Measure search quality on judged questions, and compare two builds of an index or two settings."""

"""Measure search quality on judged questions, and compare two generations or settings."""

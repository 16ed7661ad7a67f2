"""Evaluation: judged questions, measures of search quality, and comparisons of two generations or settings."""

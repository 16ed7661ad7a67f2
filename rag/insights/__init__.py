"""Searches and feedback in, a report and a test set of questions out, without who asked; off unless it is set."""

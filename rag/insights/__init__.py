"""Searches and feedback in, a report and a test set of questions out. Stores no identities, and is off by default."""

"""A record of searches and feedback, for reports and test sets. It contains no identities, and is off by default."""

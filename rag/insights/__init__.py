"""Record searches and feedback, for reports and test sets. Off by default. Users are not recorded."""

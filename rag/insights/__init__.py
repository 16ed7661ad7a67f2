"""Record searches and feedback, for reports and test sets. This is off by default, and users are not recorded."""

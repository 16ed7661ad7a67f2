"""Files of text and mail in, content out: one module a format.

May import `html` and `markup`, which some of them hold."""

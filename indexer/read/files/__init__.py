"""Files of text, mail and PDF in, content out: one module a format.

May import `html`, which some of them hold."""

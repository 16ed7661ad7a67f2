"""Files of text and mail in, content out, with a module for each format.

May import `html` and `markup`, because these files may contain both."""

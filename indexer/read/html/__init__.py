"""An HTML page in, the sections of its text out, without the interface around the text."""

"""An HTML page in, its text by sections out, without the interface around it."""

"""Split documents into chunks with a limited number of tokens, each within a section."""

"""Split documents into chunks. Each chunk lies within one section and has a limited number of tokens."""

"""Split documents into chunks. Each chunk has a limited number of tokens, and short sections are joined."""

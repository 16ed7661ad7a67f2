"""Cut documents into passages of a limited number of tokens, each with its section."""

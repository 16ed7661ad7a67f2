"""A document in, passages of so many tokens out, each with its section."""

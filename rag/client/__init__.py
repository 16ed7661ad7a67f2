"""A server's address in, its answers as objects out.

May import `query` for the types of results, and of `insights` what can be said of them."""

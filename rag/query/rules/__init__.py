"""The operator's own rules: texts of settings and files in, what they change of a search out.

May import `rag.query` and what that may import."""

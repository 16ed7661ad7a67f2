"""The dense half of a generation: vectors in, nearest neighbours out (FAISS)."""

"""A fingerprint in, the model that made its vectors out, if this machine is ready for it and has room.

May import `query` and the root of `rag`."""

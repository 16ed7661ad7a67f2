"""Folders and files of this machine in, their pages out, with who may read them. Imports `read` and `templates`."""

"""Folders and files of this machine in, their pages out, with who may read them.

May import `read`, `generation` for what is known already, and `templates`."""

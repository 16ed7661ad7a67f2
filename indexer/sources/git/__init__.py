"""Files of a Git repository: its address in, pages of the tree at a branch, tag or commit out; nothing is checked out.

May import `crawl` for what addresses may be reached, `read`, and `generation` for what is known already."""

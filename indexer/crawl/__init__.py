"""A site in, its pages out, as bytes with their headers: what may be asked, how, and how fast.

May import `read` for links and formats, and `generation` for what was there before."""

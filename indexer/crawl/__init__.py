"""A site in, its pages out, as bytes with headers: rules of robots.txt, limits, rendering, sessions.

May import `read` for links and formats, and `generation` for the previous build."""

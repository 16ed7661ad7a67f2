"""A site in, its pages out as bytes with headers. Applies robots.txt, limits, rendering and sessions.

May import `read` for links and formats, and `generation` for the previous build."""

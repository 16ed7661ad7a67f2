"""Fetch the pages of a site. Applies robots.txt and limits, renders pages and maintains login sessions.

This package may import `read` for links and formats, and `generation` for the previous build."""

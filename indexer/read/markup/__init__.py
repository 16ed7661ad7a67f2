"""Markup that people write by hand, to HTML and from there to text: Markdown in its dialects, reStructuredText.

May import `html` and what stands beside this room."""

"""Pages that scripts draw: a page as it was fetched in, the document that its scripts make of it out.

The browser reaches no network: whatever a page requests is fetched by the crawler, by its rules. May import the rest of
`crawl` without the crawler, and `read`.
"""

"""Pages that scripts draw: a page as it was fetched in, the document that its scripts make of it out.

A browser runs in a process of its own and reaches no network: whatever a page asks for is fetched by the crawler, by
its rules. May import the rest of `crawl` but for the crawler, and `read`.
"""

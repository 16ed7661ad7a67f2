"""Pages that scripts draw: a page as it was fetched in, the document that its scripts make of it out."""

"""Limits on the size of a request, before it is known who sends it."""

MAX_BODY_BYTES = 2 * 1024 * 1024
MAX_SEARCH_BYTES = 64 * 1024  # of the body of one search
MAX_CONVERSATION_BYTES = 512 * 1024  # of a question, with what was asked and answered before
MAX_DOCUMENT_BYTES = 16 * 1024 * 1024  # of a request that pushes a document, of which base64 takes a quarter

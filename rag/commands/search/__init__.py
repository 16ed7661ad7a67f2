"""A question, or a file of judged ones, in; hits, or how good they are, out. May import what all verbs share."""

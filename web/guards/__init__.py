"""Guards: a request in, the same request or a refusal out, by the role, scope and limits of its caller.

May import the root of `web`.
"""

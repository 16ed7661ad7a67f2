"""The REST interface: requests in, responses out, both as structs of `rag.messages`; a blueprint for each concern.

May import `guards` and the root of `web`.
"""

"""Sources, or a model, in; a published generation, or a compiled model, out.

May import `transfer`, which publishes to a store, and what all verbs share.
"""

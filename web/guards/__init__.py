"""Guards: who may ask, how often, how much; a request in, the same request or a refusal out.

May import the root of `web`."""

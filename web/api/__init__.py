"""The REST interface: one blueprint a concern, and the parameters that they share.

May import `guards`, `observe` and the root of `web`."""

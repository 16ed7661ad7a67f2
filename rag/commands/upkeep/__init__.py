"""An index in; what it holds, whether it is whole, and an older state of it out. May import what all verbs share."""

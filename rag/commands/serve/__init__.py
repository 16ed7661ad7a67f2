"""Settings in, a running server of pages or tools out, and the keys to it. May import what all verbs share."""

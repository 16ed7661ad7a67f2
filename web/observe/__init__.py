"""Metrics, logs and traces of requests.

May import the root of `web`."""

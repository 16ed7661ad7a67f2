"""Hits in, an answer with citations out, by an endpoint that writes."""

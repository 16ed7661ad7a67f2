"""Generations on their way between folders, archives, stores and addresses. May import what all verbs share."""

"""Searches and feedback in, a report and a test set of questions out; all on this machine, and without who asked.

Nothing is kept, and no thread begun, unless the setting `insights` is on. May import `query` and the root of `rag`.
"""

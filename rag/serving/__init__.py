"""Generations in, a retriever that always answers from the newest out; jobs and schedules that make new ones.

May import `models`, `query` and the root of `rag`."""

"""Generations in, a retriever that always answers from the newest out; jobs and schedules that make new ones.

May import `query`."""

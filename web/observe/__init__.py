"""What is told of requests: metrics, logs, traces.

May import the root of `web`."""

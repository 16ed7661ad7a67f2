"""The process that serves: connections in, requests to the application, answers out, at the clients' pace.

May import `guards`, `observe` and the root of `web`; starts the application by `web.wsgi`."""

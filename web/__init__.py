"""The web application: REST API, search page, health checks, and the server that runs them."""

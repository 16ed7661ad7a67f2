"""The web application: search API, search page, probes, and the server that runs them."""

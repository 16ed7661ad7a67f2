"""The application: settings, the query path, evaluation and the command line."""

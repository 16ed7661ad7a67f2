"""What people ask: searches and what became of them in, reports, suggestions and test sets out; all on this machine.

Imports the query path's records and the settings; nothing of it is loaded unless the setting `insights` is on.
"""

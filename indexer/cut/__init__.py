"""A document in, passages of so many tokens out, each with its section.

May import the modules beside this room, such as `indexer.config` and `indexer.records`."""

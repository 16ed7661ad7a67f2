"""An index on disk: written once, then only read. `writer` writes it, `generation` answers from it, `previous` takes
over from the one before, `manifest` names its files. May import nothing of `crawl`, `read`, `pipeline`, `publish`."""

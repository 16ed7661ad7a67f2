"""An index on disk, never changed after it was written. `writer` writes it, `generation` searches it, `previous` reads
it during a build, and `manifest` names its files. May not import `crawl`, `read`, `pipeline`, `publish`.
"""

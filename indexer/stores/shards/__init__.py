"""Several index folders of one machine, searched as one index."""

from tests.indexer.conftest import docs, sentinel, short_pauses, site, work

__all__ = ["docs", "sentinel", "short_pauses", "site", "work"]

"""Checks before a server starts: whether there is something for it to answer from."""

import sys
from collections.abc import Mapping
from contextlib import closing

from embedder.errors import PilotlightError
from indexer.errors import StoreError, StoreUnreachable
from indexer.generation.current import current_id
from indexer.stores.store import Store
from rag.query.served_model import check_fingerprint
from rag.serving.store_access import older_ids, stores_of
from rag.settings import Settings


def check_servable(settings: Settings, fingerprint: Mapping[str, object]) -> None:
    """Raise what is wrong if no collection could be served by the embedder of this fingerprint.

    A store that cannot be reached may come back, so that is only said, on stderr.
    """
    stores = stores_of(settings)
    if not stores:
        current_id(settings.index_dir)  # says that there is no index, and how to make one
    wrong: list[PilotlightError] = []
    try:
        if any(_can_serve(store, fingerprint, wrong) for store in stores.values()):
            return
    except StoreUnreachable as error:
        print(f"pilotlight: {error}; the server starts, and will answer once the store does", file=sys.stderr)
        return
    finally:
        for store in stores.values():
            store.close()
    raise wrong[0]


def _can_serve(store: Store, fingerprint: Mapping[str, object], wrong: list[PilotlightError]) -> bool:
    """Whether a store has a generation for the server to answer from; adds what is wrong with those before it.

    Raises StoreError: the others could not be asked either.
    """
    for generation_id in (None, *older_ids(store)):
        try:
            with closing(store.open(generation_id)) as generation:
                check_fingerprint(generation.manifest, fingerprint)
        except StoreError:
            raise
        except PilotlightError as error:
            wrong.append(error)
        else:
            return True
    return False

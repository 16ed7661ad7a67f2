"""Check that the session with a site is alive, and find pages that ask for a password."""

from collections.abc import Callable

from indexer.crawl.fetch import Fetcher, PageRequest
from indexer.crawl.page_links import Links
from indexer.errors import FetchError, NotWanted, SessionEnded
from indexer.network.credentials import Session
from indexer.network.urls import origin
from indexer.records import Page

_REFUSED = (401, 403)


class RedirectRefused(NotWanted):
    """A redirect that is not followed."""


class LoginCheck:
    """Checks pages of a site that may have ended the session of the crawler."""

    def __init__(self, fetcher: Fetcher, source: str, read_links: Callable[[Page], Links]) -> None:
        self._fetcher, self._source, self._read_links = fetcher, source, read_links

    def check_page(self, url: str, links: Links) -> None:
        """Note a page that was read with the session.

        Raises:
            SessionEnded: it is a login page, and the session has ended.
            NotWanted: it asks for a password although the session is alive.
        """
        session = self._fetcher.session(url)
        if session and session.kinds and links.asks_password:
            self._check_session(session, url, is_certain=True)
            raise NotWanted("asks for a password")
        if session:
            session.add_witness(url)

    def check_error(self, url: str, error: FetchError) -> None:
        """Raise SessionEnded if a failed request shows that the session has ended."""
        session = self._fetcher.session(url)
        if session and session.kinds and (error.status in _REFUSED or isinstance(error, RedirectRefused)):
            self._check_session(session, url, is_certain=error.status == 401)

    def _check_session(self, session: Session, url: str, *, is_certain: bool) -> None:
        is_alive = session.is_alive(self._is_refused)
        if is_alive is False or (is_alive is None and is_certain):
            kinds = ", ".join(session.kinds)
            raise SessionEnded(f"{origin(url)} asks to log in at {url}: its {kinds} must be renewed")

    def _is_refused(self, url: str, is_anonymous: bool) -> bool:
        """Return whether a page that was read before now needs a login. Raises FetchError."""

        def refuse(_: str) -> None:
            raise RedirectRefused("a redirect")

        try:
            response = self._fetcher.get(url, PageRequest(refuse, is_anonymous=is_anonymous))
        except FetchError as error:
            if error.status in _REFUSED or isinstance(error, RedirectRefused):
                return True
            raise
        return self._read_links(response.as_page(self._source, url)).asks_password

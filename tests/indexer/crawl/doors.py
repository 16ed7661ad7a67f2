"""Sites behind a door, for tests: each notes everything that it was sent."""

import itertools
import ssl
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs

from tests.indexer.server import Reply, Site, page, send

USER, PASSWORD = "reader", "correct horse battery"
FORM = (
    "<form method=post action=/login><input type=hidden name=csrf value={csrf}><input name=user>"
    "<input type=password name=pass><button name=go value=in>Log in</button></form>"
)


class Door(Site):
    """Pages at /p0, /p1, …, each leading to the next, for those who have a session; `how` says what others get.

    After `lasts` pages the first session ends; after `later` pages each further one.
    """

    def __init__(
        self, pages: int = 4, how: str = "redirect", lasts: int = 10**9, later: int = 10**9, **place: object
    ) -> None:
        super().__init__(**place)  # type: ignore[arg-type]
        self.requests: list[bytes] = []
        self.how = how
        self.begin(lasts, later)
        self.routes["/login"] = self.login
        self.routes["/login?next=/p"] = self.login
        self.routes["/home"] = self.guarded(page("<h1>Home</h1><p>Welcome in. Log out is above.", "Home"))
        for number in range(pages):
            link = f"<a href=/p{number + 1}>next</a>" if number + 1 < pages else ""
            text = f"<h1>Page {number}</h1><p>Words of page number {number}. {link}</p>"
            self.routes[f"/p{number}"] = self.guarded(page(text, f"Page {number}"))

    def begin(self, lasts: int, later: int) -> None:
        """Know nobody, and let sessions last for so many pages."""
        self.logins = 0
        self.sessions: dict[str, int] = {}  # pages that each may still have
        self._lasts = itertools.chain([lasts], itertools.repeat(later))

    def note(self, handler: BaseHTTPRequestHandler) -> bytes:
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        self.requests.append(f"{handler.requestline}\n{handler.headers}\n".encode() + body)
        return body

    def login(self, handler: BaseHTTPRequestHandler) -> None:
        body = self.note(handler)
        if handler.command == "GET":
            send(handler, Reply(page("<p>For members only." + FORM.format(csrf="c5rf"), "Login").encode()))
            return
        form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        if form != {"csrf": "c5rf", "user": USER, "pass": PASSWORD, "go": "in"}:
            send(handler, Reply(page("Wrong." + FORM.format(csrf="c5rf")).encode()))
            return
        self.logins += 1
        name = f"session-{self.logins}-{self.port}-of-this-reader"
        self.sessions = {name: next(self._lasts)}
        send(handler, Reply(b"", 303, {"Location": "/home", "Set-Cookie": f"sid={name}; HttpOnly; Path=/"}))

    def guarded(self, body: str):  # type: ignore[no-untyped-def]
        def route(handler: BaseHTTPRequestHandler) -> None:
            self.note(handler)
            name = (handler.headers.get("Cookie") or "").partition("sid=")[2].partition(";")[0]
            left = self.sessions.get(name, 0)
            if left:
                self.sessions[name] -= handler.path != "/home"
                send(handler, Reply(body.encode()))
            elif self.how == "redirect":
                cookie = {"Set-Cookie": "sid=of-nobody; Path=/"}  # as frameworks do
                send(handler, Reply(b"", 302, {"Location": "/login?next=/p", **cookie}))
            elif self.how == "401":
                send(handler, Reply(b"", 401))
            else:
                send(handler, Reply(page("<p>For members only." + FORM.format(csrf="c5rf"), "Login").encode()))

        return route


def noting(site: Site, seen: list[dict[str, str]], reply: Reply):  # type: ignore[no-untyped-def]
    """A route that answers everybody, and notes with which headers they came."""

    def route(handler: BaseHTTPRequestHandler) -> None:
        seen.append({name.lower(): value for name, value in handler.headers.items()})
        send(handler, reply)

    return route


__all__ = ["FORM", "PASSWORD", "USER", "Door", "noting", "ssl"]

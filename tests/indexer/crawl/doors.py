"""Sites behind a door, for tests: each notes everything that it was sent."""

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler

from tests.indexer.server import Reply, Site, page, send

FORM = "<form method=post action=/login><input name=user><input type=password name=pass></form>"
Route = Callable[[BaseHTTPRequestHandler], None]


class Door(Site):
    """Pages at /p0, /p1, …, each leading to the next, for requests whose `header` has the secret.

    `how` says what others get; after `lasts` pages the secret is worth nothing.
    """

    def __init__(
        self, secret: str, *, header: str = "Cookie", pages: int = 4, how: str = "redirect", lasts: int = 10**9
    ) -> None:
        super().__init__("127.0.0.2")
        self.secret, self.header, self.how, self.left = secret, header, how, lasts
        self.routes["/login"] = self.routes["/login?next=/p"] = page(f"<p>For members only.{FORM}", "Login")
        for number in range(pages):
            link = f"<a href=/p{number + 1}>next</a>" if number + 1 < pages else ""
            text = f"<h1>Page {number}</h1><p>Words of page number {number}. {link}</p>"
            self.routes[f"/p{number}"] = self.guarded(page(text, f"Page {number}"))

    def guarded(self, body: str) -> Route:
        def route(handler: BaseHTTPRequestHandler) -> None:
            if self.secret in handler.headers.get(self.header, "") and self.left:
                self.left -= 1
                send(handler, Reply(body.encode()))
            elif self.how == "redirect":
                cookie = {"Set-Cookie": "sid=of-nobody; Path=/"}  # as frameworks do
                send(handler, Reply(b"", 302, {"Location": "/login?next=/p", **cookie}))
            elif self.how == "401":
                send(handler, Reply(b"", 401))
            else:
                send(handler, Reply(page(f"<p>For members only.{FORM}", "Login").encode()))

        return route


def noting(seen: list[dict[str, str]], reply: Reply) -> Route:
    """Return a route that answers everybody, and notes the headers of requests."""

    def route(handler: BaseHTTPRequestHandler) -> None:
        seen.append({name.lower(): value for name, value in handler.headers.items()})
        send(handler, reply)

    return route

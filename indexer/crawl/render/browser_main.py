"""The program of the process that holds the browser. Never imported by the build.

It draws pages as it is told over standard input, until that ends: then it kills all that it has started, and itself.
"""

import asyncio
import os
import shutil
import sys
import threading
from contextlib import suppress
from typing import Any

from indexer.crawl.render.containment import adopt, kill_all_below, leave_network
from indexer.read.fork_server import BrokenMessage, read_message, write_message

_LONGEST = 1 << 30  # bytes of a page or script; the limits of the build are stricter


def main() -> None:
    """Draw pages, see `tabs`; the first message says what holds the browser, or why there is none."""
    adopt()
    network = "none" if leave_network() else ""
    with os.fdopen(os.dup(1), "wb") as answers, open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)  # what a library prints must not be taken for an answer
        try:
            asyncio.run(_draw(lambda fields, body=b"": write_message(answers, fields, body), network))
        finally:
            _end()


async def _draw(send: Any, network: str) -> None:
    from indexer.crawl.render.tabs import Tabs, first_line, launched  # Playwright, which starts threads

    orders: asyncio.Queue[tuple[dict[str, Any], bytes] | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    threading.Thread(target=_listen, args=[loop, orders], daemon=True).start()
    settings = await orders.get()
    if settings is None:
        return
    sandbox = os.geteuid() != 0
    try:
        browser = await launched(settings[0]["program"], sandbox=sandbox)
    except Exception as error:  # noqa: BLE001 - whatever keeps it from starting is told
        send({"error": first_line(error)})
        return
    holds = {"network": network, "sandbox": "Chromium's own" if sandbox else ""}
    send({"ready": True, "version": browser.version, "containment": holds})
    tabs = Tabs(browser, settings[0]["pages"], send)
    browser.on("disconnected", lambda _: orders.put_nowait(None))
    while (order := await orders.get()) is not None:
        tabs.take(*order)


def _listen(loop: asyncio.AbstractEventLoop, orders: asyncio.Queue[Any]) -> None:
    """Hand on what standard input says. A thread of its own ends everything even if the loop hangs."""
    with suppress(BrokenMessage, OSError), os.fdopen(0, "rb") as asks:
        while (message := read_message(asks, _LONGEST)) is not None:
            loop.call_soon_threadsafe(orders.put_nowait, message)
    _end()


def _end() -> None:
    """Kill the browser, remove its files, and end this process."""
    try:
        kill_all_below()
        shutil.rmtree(os.environ["TMPDIR"], ignore_errors=True)
    finally:
        sys.stderr.flush()
        os._exit(0)

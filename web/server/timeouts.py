"""Times that clients are waited for."""

from enum import Enum, auto

from web.server.connections import Connection, State

HEAD_S = 10.0  # that a client may take to send the head of a request
REQUEST_S = 60.0  # and all of it
KEEP_ALIVE_S = 15.0
STOPPING_S = 1.0  # that an idle connection is kept when the server stops: a request may be on its way
LINGER_S = 2.0  # for a client to read an answer, while it is still sending
READING_S = 10.0  # in which a client has to read this much of an answer, or all that is left of it
READ_BYTES = 40 * 1024


class TimeoutAction(Enum):
    """The action for a connection whose time has come."""

    CLOSE = auto()
    SAY_LATE = auto()  # the request did not come
    GIVE_UP = auto()  # the answer is not read
    WAIT_AGAIN = auto()  # it is, and so begins another span


def due(conn: Connection, now: float, stopped: float) -> TimeoutAction | None:
    """Return what is due with a connection that waits for its client; None if it is not its time.

    `now` and `stopped`, when the server was told to stop or 0, are times of `time.monotonic`.
    """
    waited = now - conn.since
    if conn.state is State.LINGERING:
        return TimeoutAction.CLOSE if waited >= LINGER_S else None
    if conn.state is State.SENDING:
        if waited < READING_S:
            return None
        return TimeoutAction.GIVE_UP if conn.unread - conn.to_send.waiting < READ_BYTES else TimeoutAction.WAIT_AGAIN
    if conn.received.is_idle:
        is_over = waited >= KEEP_ALIVE_S or (stopped and now - max(stopped, conn.since) >= STOPPING_S)
        return TimeoutAction.CLOSE if is_over else None
    is_late = now - conn.received.began >= (REQUEST_S if conn.received.head_end else HEAD_S)
    return TimeoutAction.SAY_LATE if is_late else None

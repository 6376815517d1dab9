"""One connection of an event loop: the requests in flight, and the received bytes.

A request is a future in the connection's table. A cancelled request leaves its cancelled future there, so that a late
reply is ignored. Replies with a run to hold go straight to the library, so this module keeps no ids.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Dict, Optional, Union, cast

from . import _library as library
from . import _protocol as protocol
from ._errors import Error, InvalidArgumentError

IN_FLIGHT_MAX = 65_536
"""The maximum number of unanswered requests of a connection."""

ABANDONED_MAX = 8192
"""If this many abandoned requests are still unanswered, the daemon counts as hung."""

Answer = Union[bytes, int, "Broken", None]
"""The body of a reply. For a reply with ids to hold: one of the ids, or 0 if there is none. None if the reply was
late."""


class Broken:
    """The outcome of a request whose connection broke before the reply."""

    __slots__ = ("served", "why")

    def __init__(self, why: Error, served: bool) -> None:
        self.why = why
        self.served = served


def give(future: "asyncio.Future[Any]", result: object) -> None:
    """Sets the result of a future, unless it is already done."""
    if not future.done():
        future.set_result(result)


class Request:
    """A request in flight. `tag`: the tag whose held run the reply refills. `ahead`: whether no call waits for the
    reply."""

    __slots__ = ("ahead", "asked", "asked_ns", "future", "opcode", "tag")

    def __init__(
        self,
        opcode: int,
        future: "asyncio.Future[Answer]",
        tag: Optional[library.TagHandle] = None,
        asked: int = 0,
        ahead: bool = False,
    ) -> None:
        self.ahead = ahead
        self.opcode = opcode
        self.future = future
        self.tag = tag
        self.asked = asked
        self.asked_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def answer(self, status: int, body: bytes) -> None:
        """Passes the reply to the waiting call."""
        future = self.future
        if status:
            if not future.done():
                future.set_exception(protocol.refusal(status, body))
            return
        if self.tag is None:
            give(future, body)
            return
        id = library.hold(self.tag, body, self.asked, self.asked_ns)
        if not id and not self.ahead and not future.done():
            # Take the id now: by the time the loop wakes the task, the ids may be too old.
            id = library.loop_advance(self.tag)
        give(future, id)


class Connection(asyncio.Protocol):
    """One connection: its requests by number, and the received bytes."""

    def __init__(self, path: str, loop: asyncio.AbstractEventLoop) -> None:
        self.path = path
        self.loop = loop
        self.made = loop.time()
        self.transport: Optional[asyncio.Transport] = None
        self.requests: Dict[int, Request] = {}
        self.served = False
        self.gone = False
        self._last = 0
        self._abandoned = 0
        self._received = b""

    def number(self) -> int:
        """Returns a number for the next request."""
        if len(self.requests) >= IN_FLIGHT_MAX:
            raise InvalidArgumentError(f"at most {IN_FLIGHT_MAX} requests may await an answer; await some first")
        # The number is never 0, which marks connection-level errors, nor that of an overdue request.
        while True:
            self._last = self._last % 0xFFFF_FFFF + 1
            if self._last not in self.requests:
                return self._last

    def has_room_ahead(self) -> bool:
        """Whether there is room for a request that no call waits for, in addition to those that calls wait for."""
        return len(self.requests) < IN_FLIGHT_MAX // 2

    def send(self, number: int, frame: bytes, request: Request) -> None:
        """Sends a request."""
        assert self.transport is not None
        self.requests[number] = request
        self.transport.write(frame)

    def abandon(self) -> None:
        """Counts an abandoned request whose reply has not arrived."""
        self._abandoned += 1
        if self._abandoned >= ABANDONED_MAX:
            # Count again: replies may have arrived since.
            self._abandoned = sum(request.future.done() for request in self.requests.values())
            if self._abandoned >= ABANDONED_MAX:
                self.end(protocol.disconnected(self.path, "too many answers are overdue; the daemon may be hanging"))

    def end(self, why: Error) -> None:
        """Closes the connection and fails all requests on it."""
        if self.gone:
            return
        self.gone = True
        if self.transport is not None:
            self.transport.abort()
        requests, self.requests = self.requests, {}
        for request in requests.values():
            give(request.future, Broken(why, self.served))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        # uvloop's transports aren't instances of asyncio's classes.
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Optional[Exception]) -> None:
        """Called by the loop."""
        self.end(protocol.disconnected(self.path, str(error) if error else "the daemon closed it"))

    def data_received(self, data: bytes) -> None:
        """Called by the loop: passes each complete frame to its request."""
        if self._received:
            data = self._received + data
        start, header = 0, protocol.HEADER
        try:
            while len(data) - start >= header.size:
                length, opcode, _, status, number = header.unpack_from(data, start)
                if not 8 <= length <= protocol.REPLY_LENGTH_MAX:
                    raise protocol.broken(f"a reply's length field says {length}")
                stop = start + 4 + length
                if len(data) < stop:
                    break
                self._take(opcode, status, number, data[start + header.size : stop])
                if self.gone:
                    return
                start = stop
        except Error as error:
            # Bytes after the error can't be trusted.
            self.end(error)
            return
        self._received = data[start:]

    def _take(self, opcode: int, status: int, number: int, body: bytes) -> None:
        closes = status in protocol.CLOSING
        if number == 0 and closes:
            # A connection-level error applies to all requests.
            for request in self.requests.values():
                request.answer(status, body)
            self.end(protocol.refusal(status, body))
            return
        asked: Optional[Request] = self.requests.pop(number, None)
        if asked is None:
            raise protocol.broken("a reply has the id of no request")
        try:
            if opcode != asked.opcode | protocol.REPLY:
                raise protocol.broken("a reply's opcode differs from its request's")
            asked.answer(status, body)
        except Error as error:
            if not asked.future.done():
                asked.future.set_exception(error)
            raise
        self.served = self.served or status == 0
        if closes:
            self.end(protocol.disconnected(self.path, "the daemon closed it"))

"""An event loop's connection to the daemon, shared by all its tasks and reopened when it breaks."""

from __future__ import annotations

import asyncio
import errno as numbers
import os
import random
import socket
import time
from typing import Any, Callable, Dict, Optional, Union

from . import _library as library
from . import _protocol as protocol
from ._connection import Answer, Broken, Connection, Request, give
from ._errors import Error, Status

GRACE = 0.25
"""How much longer than its timeout a call waits for the daemon's error, in seconds."""

PAUSE_MIN, PAUSE_MAX = 0.002, 0.1
"""The first pause before another attempt to connect, and the longest, in seconds."""

SERVED_BREAKS_MAX, BREAKS_MAX = 1, 5
"""How many times a request is retried after a broken connection: after one that had answered before, and in total."""

FOLLOWS_MAX = 2
"""How many times a call waits for another call's request. If the replies arrive too late to hold, the call then sends
its own request."""

JUST_NOW = 10.0
"""How long a removed socket counts as that of a restarting daemon, in seconds."""


class Deadline:
    """The deadline of a call, in the loop's time."""

    __slots__ = ("connect_by", "end", "limit", "start", "waits")

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: float, wait: float) -> None:
        self.start = loop.time()
        self.limit = limit
        self.end = self.start + limit
        self.connect_by = max(self.end, self.start + wait)
        self.waits = wait > 0

    def connected(self, at: float) -> None:
        """Records when the connection was made. If the call waited for it, the daemon's time to answer starts then."""
        if self.waits:
            self.end = max(self.end, at + self.limit)

    def last_moment(self) -> float:
        """Returns when a call stops waiting for another task, which may be waiting for a connection."""
        return max(self.end, self.connect_by + self.limit if self.waits else self.end)

    def left_ms(self, now: float) -> int:
        """Returns the remaining time for the request's deadline field, in milliseconds, rounded up."""
        return max(0, -int(-(self.end - now) * 1000 // 1))


class Link:
    """A client's link to the daemon in one event loop: one connection at a time, reopened when it breaks."""

    def __init__(self, path: str, loop: asyncio.AbstractEventLoop) -> None:
        self.path = path
        self.loop = loop
        self.pid = os.getpid()
        self.closed = False
        self.fetches: "Dict[str, asyncio.Future[None]]" = {}
        """The pending requests for the next run, by tag."""
        self.waiting: Dict[str, int] = {}
        """How many calls wait for the next run, by tag."""
        self.connection: Optional[Connection] = None
        self._connecting: "Optional[asyncio.Future[None]]" = None
        self._reached = False
        self._pause = PAUSE_MIN
        self._next_try = 0.0

    def live(self) -> Optional[Connection]:
        """Returns the connection, if there is one."""
        connection = self.connection
        return connection if connection is not None and not connection.gone else None

    async def connected(self, deadline: Deadline) -> Connection:
        """Returns the connection. Reconnects if necessary, with growing pauses, up to the deadline, and then once more."""
        while True:
            if self.closed:
                raise library.closed()
            connection = self.live()
            if connection is not None:
                # Another task may have connected while this one waited.
                deadline.connected(connection.made)
                return connection
            if self._connecting is not None:
                # Another task is connecting.
                if not await self.sleep(self._connecting, deadline.connect_by + GRACE):
                    raise protocol.unreachable(self.path, TimeoutError(numbers.ETIMEDOUT, "timed out"))
                continue
            done = self._connecting = self.loop.create_future()
            try:
                await self._connect(deadline)
            finally:
                self._connecting = None
                give(done, None)

    async def _connect(self, deadline: Deadline) -> None:
        if self.connection is not None and not self.connection.served:
            # A connection without any answer counts as a failed attempt.
            self._refused()
            self.connection = None
        while not self.closed:
            pause = self._next_try - self.loop.time()
            if pause > 0:
                await asyncio.sleep(min(pause, max(0.0, deadline.connect_by - self.loop.time())))
            is_over = self.loop.time() >= deadline.connect_by
            try:
                self.connection = await self._open()
            except OSError as error:
                self._refused()
                if is_over or not self._may_come_back(error, deadline):
                    raise protocol.unreachable(self.path, error) from None
            else:
                self._reached = True
                return

    async def _open(self) -> Connection:
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            line.setblocking(False)
            # A Unix socket connects immediately or fails. Event loops would mistake a full backlog for success.
            line.connect(os.fsencode(self.path))
            connection = Connection(self.path, self.loop)
            await self.loop.create_unix_connection(lambda: connection, sock=line)
        except BaseException:
            line.close()
            raise
        return connection

    def _refused(self) -> None:
        # The pause has jitter, so that a host's processes don't all reconnect at once.
        self._next_try = self.loop.time() + self._pause * random.uniform(0.75, 1.25)
        self._pause = min(2 * self._pause, PAUSE_MAX)

    def _may_come_back(self, error: OSError, deadline: Deadline) -> bool:
        # The backlog is full, so a daemon exists, or a listening daemon was killed.
        if error.errno in (numbers.EAGAIN, numbers.ECONNREFUSED):
            return True
        return error.errno == numbers.ENOENT and (deadline.waits or self._reached or _has_just_gone(self.path))

    async def next_id(self, tag: str, handle: library.TagHandle, deadline: Deadline) -> int:
        """Returns an id when none is held: from the next run, or drawn singly."""
        name = tag.encode()
        for _ in range(FOLLOWS_MAX):
            id = library.loop_advance(handle)
            if id:
                return id
            if library.loop_wish(handle, 2) == 1:
                # As far as is known, ids of this tag may not be held.
                break
            fetch = self.fetches.get(tag)
            if fetch is not None:
                await self._follow(tag, fetch, deadline)
                continue
            fetch = self.fetches[tag] = self.loop.create_future()
            try:
                count = library.loop_wish(handle, 1 + self.waiting.get(tag, 0))
                id = await self._fetch(deadline, name, handle, count)
            finally:
                self._end_fetch(tag, fetch)
            if id:
                return id
        return (
            library.loop_advance(handle)
            or await self._fetch(deadline, name, handle, 1)
            # Other threads that share the tag have taken all the ids.
            or await self.next_id(tag, handle, deadline)
        )

    async def _follow(self, tag: str, fetch: "asyncio.Future[None]", deadline: Deadline) -> None:
        """Waits for a run that another task requests for all waiting calls."""
        self.waiting[tag] = self.waiting.get(tag, 0) + 1
        try:
            came = await self.sleep(fetch, deadline.last_moment() + GRACE)
        finally:
            self.waiting[tag] -= 1
            if not self.waiting[tag]:
                del self.waiting[tag]
        if not came:
            raise protocol.timed_out(self.loop.time() - deadline.start)

    async def _fetch(self, deadline: Deadline, name: bytes, handle: library.TagHandle, count: int) -> int:
        answer = await self.ask(deadline, name, count, handle)
        assert isinstance(answer, int)
        return answer

    def prefetch(self, tag: str, handle: library.TagHandle, timeout: float) -> None:
        """Requests the next run, if that is possible without waiting."""
        connection = self.live()
        if connection is None or tag in self.fetches or self.pid != os.getpid() or not connection.has_room_ahead():
            return
        fetch = self.fetches[tag] = self.loop.create_future()
        future: "asyncio.Future[Answer]" = self.loop.create_future()

        def done(future: "asyncio.Future[Answer]") -> None:
            # Errors are ignored here, because at the end of the run a call requests again, and raises the error if it
            # persists.
            if not future.cancelled():
                future.exception()
            self._end_fetch(tag, fetch)

        future.add_done_callback(done)
        number, count = connection.number(), library.loop_wish(handle, 1)
        frame = protocol.ids_request(number, tag.encode(), count, int(timeout * 1000), True)
        connection.send(number, frame, Request(protocol.IDS, future, handle, count, ahead=True))

    def _end_fetch(self, tag: str, fetch: "asyncio.Future[None]") -> None:
        if self.fetches.get(tag) is fetch:
            del self.fetches[tag]
        give(fetch, None)

    async def ask(
        self, deadline: Deadline, name: Optional[bytes], count: int, hold: Optional[library.TagHandle] = None
    ) -> Union[bytes, int]:
        """Requests ids of a tag, or INFO if `name` is None, and returns the answer."""
        if name is None:
            return await self.exchange(deadline, protocol.info_request, protocol.INFO)
        tag = name

        def frame(number: int) -> bytes:
            return protocol.ids_request(number, tag, count, deadline.left_ms(self.loop.time()), hold is not None)

        return await self.exchange(deadline, frame, protocol.IDS, hold, count)

    async def exchange(
        self,
        deadline: Deadline,
        frame: Callable[[int], bytes],
        opcode: int,
        hold: Optional[library.TagHandle] = None,
        asked: int = 0,
    ) -> Union[bytes, int]:
        """Sends a request, retries it if necessary, and returns the answer. `frame`: encodes it with a request number."""
        breaks = served_breaks = 0
        while True:
            connection = await self.connected(deadline)
            number, future = connection.number(), self.loop.create_future()
            connection.send(number, frame(number), Request(opcode, future, hold, asked))
            try:
                answer = await self._outcome(future, deadline, connection)
            except Error as error:
                if error.status is Status.SHUTTING_DOWN and self.loop.time() < deadline.end:
                    continue
                raise
            if not isinstance(answer, Broken):
                self._pause = PAUSE_MIN
                return answer
            breaks += 1
            served_breaks += answer.served
            again = served_breaks <= SERVED_BREAKS_MAX and breaks <= BREAKS_MAX
            if self.closed or not again or answer.why.status is not Status.DISCONNECTED:
                raise answer.why

    async def _outcome(
        self, future: "asyncio.Future[Answer]", deadline: Deadline, connection: Connection
    ) -> Union[bytes, int, Broken]:
        """Waits for the outcome of a request. Abandons it when the deadline passes or the task is cancelled."""
        timer = self.loop.call_at(deadline.end + GRACE, give, future, None)
        try:
            answer = await future
        except asyncio.CancelledError:
            connection.abandon()
            raise
        finally:
            timer.cancel()
        if answer is None:
            connection.abandon()
            raise protocol.timed_out(self.loop.time() - deadline.start)
        return answer

    async def sleep(self, future: "asyncio.Future[Any]", until: float) -> bool:
        """Waits for another task's future without cancelling it. Returns False if it was not done by `until`."""
        done = self.loop.create_future()

        def wake(_: object) -> None:
            give(done, True)

        future.add_done_callback(wake)
        timer = self.loop.call_at(until, give, done, False)
        try:
            came: bool = await done
            return came
        finally:
            timer.cancel()
            future.remove_done_callback(wake)

    def close(self) -> None:
        """Closes the connection and fails all waiting calls."""
        self.closed = True
        # If the loop is closed, its connection is closed too.
        if self.connection is not None and self.pid == os.getpid() and not self.loop.is_closed():
            self.connection.end(library.closed())


def _has_just_gone(path: str) -> bool:
    try:
        age = time.time() - os.stat(os.path.dirname(path) or ".").st_mtime
    except OSError:
        return False
    return 0 <= age < JUST_NOW and os.path.exists(path + ".lock")

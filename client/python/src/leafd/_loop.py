"""The way to the daemon of one event loop, for all of its tasks: a connection that is made anew when it breaks."""

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
"""How much longer than its timeout a call waits for the daemon's own word on it, in seconds."""

PAUSE_MIN, PAUSE_MAX = 0.002, 0.1
"""The first pause before another attempt to connect, and the longest, in seconds."""

SERVED_BREAKS_MAX, BREAKS_MAX = 1, 5
"""How often a request is sent again when a connection breaks that had served, and in all."""

FOLLOWS_MAX = 2
"""How often a call waits for what another asks for. Where answers come too late to be held, each then asks for itself."""

JUST_NOW = 10.0
"""For how many seconds a socket that was removed is taken for that of a daemon that restarts."""


class Deadline:
    """When a call has to have ended, in the loop's time."""

    __slots__ = ("connect_by", "end", "limit", "start", "waits")

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: float, wait: float) -> None:
        self.start = loop.time()
        self.limit = limit
        self.end = self.start + limit
        self.connect_by = max(self.end, self.start + wait)
        self.waits = wait > 0

    def connected(self, at: float) -> None:
        """There is a connection, made at that time: the daemon has its time from then on if the call waited for it."""
        if self.waits:
            self.end = max(self.end, at + self.limit)

    def last_moment(self) -> float:
        """When a call stops to wait for another task, which may be waiting for a connection."""
        return max(self.end, self.connect_by + self.limit if self.waits else self.end)

    def left_ms(self, now: float) -> int:
        """What is left, as the daemon is told it."""
        return max(0, -int(-(self.end - now) * 1000 // 1))


class Link:
    """What a loop has of a client: its connection, made anew when it breaks."""

    def __init__(self, path: str, loop: asyncio.AbstractEventLoop) -> None:
        self.path = path
        self.loop = loop
        self.pid = os.getpid()
        self.closed = False
        self.fetches: "Dict[str, asyncio.Future[None]]" = {}
        """The next runs of tags, while they are asked for."""
        self.waiting: Dict[str, int] = {}
        """How many calls wait for a tag's next run."""
        self.connection: Optional[Connection] = None
        self._connecting: "Optional[asyncio.Future[None]]" = None
        self._reached = False
        self._pause = PAUSE_MIN
        self._next_try = 0.0

    def live(self) -> Optional[Connection]:
        """The connection, if there is one."""
        connection = self.connection
        return connection if connection is not None and not connection.gone else None

    async def connected(self, deadline: Deadline) -> Connection:
        """The connection, made if need be, with growing pauses up to the deadline, and then for a last time."""
        while True:
            if self.closed:
                raise library.closed()
            connection = self.live()
            if connection is not None:
                # Another task may have made it while this one waited.
                deadline.connected(connection.made)
                return connection
            if self._connecting is not None:
                # Another task is at it.
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
            # One that never answered anything is as good as none.
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
            # A Unix socket connects at once or not at all: loops would take a full backlog for success.
            line.connect(os.fsencode(self.path))
            connection = Connection(self.path, self.loop)
            await self.loop.create_unix_connection(lambda: connection, sock=line)
        except BaseException:
            line.close()
            raise
        return connection

    def _refused(self) -> None:
        # Not all of a host's processes at once.
        self._next_try = self.loop.time() + self._pause * random.uniform(0.75, 1.25)
        self._pause = min(2 * self._pause, PAUSE_MAX)

    def _may_come_back(self, error: OSError, deadline: Deadline) -> bool:
        # A full backlog; or a daemon was killed that had listened.
        if error.errno in (numbers.EAGAIN, numbers.ECONNREFUSED):
            return True
        return error.errno == numbers.ENOENT and (deadline.waits or self._reached or _has_just_gone(self.path))

    async def next_id(self, tag: str, handle: library.TagHandle, deadline: Deadline) -> int:
        """An id out of a held run, when none was at hand."""
        name = tag.encode()
        for _ in range(FOLLOWS_MAX):
            id = library.loop_advance(handle)
            if id:
                return id
            if library.loop_wish(handle, 2) == 1:
                # Its ids may not be held, as far as is known.
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
            # Threads that share the tag were faster.
            or await self.next_id(tag, handle, deadline)
        )

    async def _follow(self, tag: str, fetch: "asyncio.Future[None]", deadline: Deadline) -> None:
        """Waits while another task asks for all."""
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
        """Asks for the next run, if that takes no waiting."""
        connection = self.live()
        if connection is None or tag in self.fetches or self.pid != os.getpid() or not connection.has_room_ahead():
            return
        fetch = self.fetches[tag] = self.loop.create_future()
        future: "asyncio.Future[Answer]" = self.loop.create_future()

        def done(future: "asyncio.Future[Answer]") -> None:
            # Whatever went wrong: the end of the run asks again, and tells.
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
        """Asks for ids of a tag, or for INFO, and returns the answer."""
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
        """Sends a request, again if need be, and returns the answer. `frame`: its bytes, by its number."""
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
        """What a request comes to. It is given up when the deadline passes, and when the task is cancelled."""
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
        """Waits for what another task does, without a part in its fate. False: not by `until`."""
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
        """Ends the connection; what waits on it is told."""
        self.closed = True
        # With its loop went the connection; only memory is left of it.
        if self.connection is not None and self.pid == os.getpid() and not self.loop.is_closed():
            self.connection.end(library.closed())


def _has_just_gone(path: str) -> bool:
    try:
        age = time.time() - os.stat(os.path.dirname(path) or ".").st_mtime
    except OSError:
        return False
    return 0 <= age < JUST_NOW and os.path.exists(path + ".lock")

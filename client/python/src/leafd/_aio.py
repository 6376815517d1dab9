"""The client for asyncio. It returns held ids at once, and requests others over the event loop's own connection."""

from __future__ import annotations

import asyncio
import os
from types import TracebackType
from typing import Any, AsyncIterator, Dict, List, Optional, Type, Union

from . import _library as library
from . import _protocol as protocol
from ._client import Client, Closed, check_numbers
from ._errors import InvalidArgumentError
from ._layout import Info, Layout
from ._loop import Deadline, Link
from ._public_ids import AsyncPublicIds, Form

_REFILL = library.REFILL

_parents: List[Link] = []
"""Connections inherited by a forked child. They stay referenced, because closing them would affect the parent."""

_MASKS = 240
"""The number of public ids per request, so that texts of any length fit a frame."""

_CHUNK = 20_000
"""The number of Python ints created at a time. The event loop runs in between."""


class AsyncClient:
    """:class:`leafd.Client` for asyncio: calls neither block the event loop nor use threads.

    `client`: the client to use, or the path of the daemon's socket for a new client. The other arguments are those of
    :class:`leafd.Client`, and apply only to a new client. Each event loop and each forked child has its own connection;
    held runs belong to the process and are shared with `client`.

    Timeouts start when the call starts. A cancelled task abandons its request at once; ids that arrive too late are
    skipped.
    """

    def __init__(
        self,
        client: Optional[Union[Client, str, "os.PathLike[str]"]] = None,
        *,
        socket: Optional[Union[str, "os.PathLike[str]"]] = None,
        timeout: Optional[float] = None,
        wait: Optional[float] = None,
        direct: Optional[bool] = None,
        polling: Optional[bool] = None,
    ) -> None:
        given = {"socket": socket, "timeout": timeout, "wait": wait, "direct": direct, "polling": polling}
        settings: Dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        self._owned = not isinstance(client, Client)
        if isinstance(client, Client):
            if settings:
                raise InvalidArgumentError(f"the client exists already, so {', '.join(settings)} can't be set")
            self._client = client
        elif client is not None and socket is not None:
            raise InvalidArgumentError("both `client` and `socket` give the path of the socket")
        else:
            self._client = Client(settings.pop("socket", client), **settings)
        self._closed = False
        self._tags = self._client._tags
        self._timeout = library.limit_milliseconds(self._client._settings.timeout) / 1000
        self._wait = library.wait_milliseconds(self._client._settings.wait) / 1000
        self._links: Dict[asyncio.AbstractEventLoop, Link] = {}

    async def next_id(self, tag: str, timeout: Optional[float] = None) -> int:
        """Returns the next id of `tag`; see :meth:`leafd.Client.next_id`."""
        handle = self._tags[tag]
        taken: int = library.loop_take(handle)
        if 0 < taken < _REFILL:
            return taken
        if taken > _REFILL:
            self._link().prefetch(tag, handle, self._timeout)
            return taken & ~_REFILL
        if self._client._settings.direct:
            return await self.next_id_direct(tag, timeout)
        return await self._link().next_id(tag, handle, self._deadline(timeout))

    async def next_id_direct(self, tag: str, timeout: Optional[float] = None) -> int:
        """Returns the next id, drawn directly; see :meth:`leafd.Client.next_id_direct`."""
        [ids] = await self._draw(tag, 1, self._deadline(timeout))
        return ids[0]

    async def next_ids(self, tag: str, count: int, timeout: Optional[float] = None) -> List[int]:
        """Returns `count` ids; see :meth:`leafd.Client.next_ids`."""
        library.check_count(count)
        deadline = self._deadline(timeout)
        ids: List[int] = []
        while len(ids) < count:
            for drawn in await self._draw(tag, min(count - len(ids), protocol.COUNT_MAX), deadline):
                for start in range(0, len(drawn), _CHUNK):
                    if ids:
                        await asyncio.sleep(0)
                    ids.extend(drawn[start : start + _CHUNK])
        return ids

    async def ids(self, tag: str) -> AsyncIterator[int]:
        """Yields ids endlessly."""
        while True:
            yield await self.next_id(tag)

    async def connect(self) -> "AsyncClient":
        """Connects now; see :meth:`leafd.Client.connect`."""
        await self._ask_info(None)
        return self

    async def info(self, timeout: Optional[float] = None) -> Info:
        """Returns what the daemon reports about itself; see :meth:`leafd.Client.info`."""
        return (await self._ask_info(timeout)).info

    async def layout(self, name: str = "snowflake") -> Layout:
        """Returns the daemon's layout; see :meth:`leafd.Client.layout`."""
        layouts = (await self._ask_info(None)).layouts
        if name not in layouts:
            raise InvalidArgumentError(f"leafd has no layout {name!r}; its layouts are {', '.join(layouts)}")
        return layouts[name]

    def public_ids(self, tag: str, *, prefix: str = "", bits: int = 63, key: int = 0) -> AsyncPublicIds:
        """Returns a converter between dense ids and public ids; see :meth:`leafd.Client.public_ids`."""
        return AsyncPublicIds(self._ask_masks, self._client.socket, Form.of(tag, prefix, bits, key))

    async def _ask_masks(
        self, opcode: int, form: Form, is_text: bool, items: List[bytes], timeout: Optional[float]
    ) -> List[bytes]:
        deadline, link = self._deadline(timeout), self._link()
        prefix = form.prefix.encode() if is_text else None
        answers: List[bytes] = []
        for start in range(0, len(items), _MASKS):
            some = items[start : start + _MASKS]

            def frame(number: int) -> bytes:
                return protocol.mask_request(number, opcode, form.tag.encode(), prefix, form.bits, form.key, some)

            body = await link.exchange(deadline, frame, opcode)
            assert isinstance(body, bytes)
            answers += protocol.masked_of(body, len(some))
        return answers

    async def next_number(self, series: str, tenant: str = "", timeout: Optional[float] = None) -> str:
        """Returns the next document number of a series; see :meth:`leafd.Client.next_number`."""
        return (await self.next_numbers(series, 1, tenant, timeout))[0]

    async def next_numbers(
        self, series: str, count: int, tenant: str = "", timeout: Optional[float] = None
    ) -> List[str]:
        """Returns `count` document numbers of a series; see :meth:`leafd.Client.next_numbers`."""
        check_numbers(count)
        names = library.name_bytes(series), library.name_bytes(tenant)
        deadline, link = self._deadline(timeout), self._link()
        numbers: List[str] = []
        while len(numbers) < count:
            asked = min(count - len(numbers), protocol.NUMBERS_MAX)

            def frame(number: int) -> bytes:
                return protocol.series_request(number, *names, asked, deadline.left_ms(link.loop.time()))

            body = await link.exchange(deadline, frame, protocol.SERIES_NEXT)
            assert isinstance(body, bytes)
            numbers += protocol.numbers_of(body, asked)
        return numbers

    def close(self) -> None:
        """Closes the connections; waiting calls fail. Also closes the client, unless it was passed in."""
        self._closed = True
        for link in self._links.values():
            link.close()
        if self._owned:
            self._client.close()
        self._tags = Closed()

    async def aclose(self) -> None:
        """Same as :meth:`close`, for `contextlib.aclosing` and other code that awaits it."""
        self.close()

    async def _ask_info(self, timeout: Optional[float]) -> protocol.InfoReply:
        body = await self._link().ask(self._deadline(timeout), None, 0)
        assert isinstance(body, bytes)
        return protocol.info_of(body)

    async def _draw(self, tag: str, count: int, deadline: Deadline) -> List[range]:
        # Raises an error if the tag's name is invalid.
        self._tags[tag]
        body = await self._link().ask(deadline, tag.encode(), count)
        assert isinstance(body, bytes)
        return protocol.ids_of(body, count)

    def _deadline(self, timeout: Optional[float]) -> Deadline:
        """Returns the deadline of a call. A call's own timeout also limits the wait for a missing daemon."""
        loop = asyncio.get_running_loop()
        if timeout is None:
            return Deadline(loop, self._timeout, self._wait)
        return Deadline(loop, library.milliseconds(timeout) / 1000, 0.0)

    def _link(self) -> Link:
        """The running loop's connection."""
        loop = asyncio.get_running_loop()
        link = self._links.get(loop)
        if link is None or link.pid != os.getpid():
            if self._closed:
                raise library.closed()
            if link is not None:
                _parents.append(link)
            self._links = {other: of_other for other, of_other in self._links.items() if not other.is_closed()}
            link = self._links[loop] = Link(self._client.socket, loop)
        return link

    def __repr__(self) -> str:
        return f"<leafd.AsyncClient socket={self._client.socket!r}{' closed' if self._closed else ''}>"

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

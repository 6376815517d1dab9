"""The client for asyncio. What the process holds is taken at once; what has to wait does so in a thread."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import Executor
from functools import partial
from types import TracebackType
from typing import AsyncIterator, Callable, List, Optional, Type, TypeVar, Union

from ._client import Client
from ._layout import Layout

T = TypeVar("T")


class AsyncClient:
    """:class:`leafd.Client` for asyncio: no call blocks the loop.

    `client`: the client to use, or a socket's path for one of its own. `executor`: where calls wait; the loop's
    default by default. A call that is cancelled may still draw its ids, which are then skipped.
    """

    def __init__(
        self,
        client: Optional[Union[Client, str, "os.PathLike[str]"]] = None,
        *,
        executor: Optional[Executor] = None,
    ) -> None:
        self._owned = not isinstance(client, Client)
        self._client = client if isinstance(client, Client) else Client(client)
        self._executor = executor

    async def next_id(self, tag: str, timeout: Optional[float] = None) -> int:
        """The next id of `tag`; see :meth:`leafd.Client.next_id`."""
        held = self._client.held_id(tag)
        return held if held is not None else await self._wait(partial(self._client.next_id, tag, timeout))

    async def next_id_unleased(self, tag: str, timeout: Optional[float] = None) -> int:
        """The next id by a request of its own; see :meth:`leafd.Client.next_id_unleased`."""
        return await self._wait(partial(self._client.next_id_unleased, tag, timeout))

    async def next_ids(self, tag: str, count: int, timeout: Optional[float] = None) -> List[int]:
        """`count` ids; see :meth:`leafd.Client.next_ids`."""
        return await self._wait(partial(self._client.next_ids, tag, count, timeout))

    async def ids(self, tag: str) -> AsyncIterator[int]:
        """Ids without end."""
        while True:
            yield await self.next_id(tag)

    async def connect(self) -> "AsyncClient":
        """Connects now; see :meth:`leafd.Client.connect`."""
        await self._wait(self._client.connect)
        return self

    async def layout(self, name: str = "snowflake") -> Layout:
        """A layout as the daemon has it; see :meth:`leafd.Client.layout`."""
        return await self._wait(partial(self._client.layout, name))

    def close(self) -> None:
        """Closes the client, unless it was given."""
        if self._owned:
            self._client.close()

    async def _wait(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

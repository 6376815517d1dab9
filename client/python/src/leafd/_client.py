"""The blocking client."""

from __future__ import annotations

import ctypes
import os
from array import array
from types import TracebackType
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Type, Union

from . import _library as library
from ._errors import InvalidArgument
from ._layout import Layout, layout_of

_take: Callable[[library.TagHandle], int] = library.take


class Client:
    """A process's way to the daemon, for all its threads and, each on its own, for its forked children.

    `socket`: the path of the daemon's socket; by default `$LEAFD_SOCKET`, else where a daemon of this user or of the
    system listens. `timeout`: how long calls may take unless they say otherwise, in seconds, at most 60; when it is
    over a call waits up to 0.25 s more for the daemon's own word on why. `leased`: whether ids may come out of a run
    that the process holds, in well under a microsecond; otherwise each is a request of its own, and the ids of a tag
    are strictly increasing on this host. `polling`: whether a thread that waits may poll for some microseconds
    before it sleeps.

    It connects on first use (:meth:`connect` for at once). While a call waits, other threads run. A signal's handler
    runs when the call is done. Clients can be pickled, to be made anew in another process.

    Every call may raise a subclass of :class:`leafd.Error`.
    """

    __slots__ = ("__weakref__", "_handle", "_settings", "_tags")

    def __init__(
        self,
        socket: Optional[Union[str, "os.PathLike[str]"]] = None,
        *,
        timeout: float = 2.0,
        leased: bool = True,
        polling: bool = True,
    ) -> None:
        self._settings = (None if socket is None else os.fspath(socket), timeout, leased, polling)
        path = None if socket is None else os.fsencode(socket)
        if path is not None and b"\0" in path:
            raise InvalidArgument("the path of a socket has no zero in it")
        flags = (0 if leased else library.UNLEASED) | (0 if polling else library.NO_POLLING)
        handle = library.ClientHandle()
        library.check(library.client_new(path, library.milliseconds(timeout), flags, ctypes.byref(handle)))
        self._handle: Optional[library.ClientHandle] = handle
        self._tags: Dict[str, library.TagHandle] = _Tags(handle)

    def next_id(self, tag: str, timeout: Optional[float] = None) -> int:
        """The next id of `tag`: a number from 1 to 2**63 - 1 that nobody else gets.

        `timeout`: in seconds; the client's own by default.
        """
        return _take(self._tags[tag]) or self._next_slow(tag, timeout)

    def _next_slow(self, tag: str, timeout: Optional[float]) -> int:
        handle = self._tags[tag]
        id = ctypes.c_uint64()
        library.check(library.tag_next(handle, library.milliseconds(timeout), ctypes.byref(id)))
        return id.value

    def held_id(self, tag: str) -> Optional[int]:
        """An id of the run that the process holds, without waiting; None: there is none. For event loops."""
        return _take(self._tags[tag]) or None

    def next_id_unleased(self, tag: str, timeout: Optional[float] = None) -> int:
        """The next id of `tag` by a request of its own: higher than any drawn so on this host before."""
        id = ctypes.c_uint64()
        name = library.name_bytes(tag)
        limit = library.milliseconds(timeout)
        library.check(library.next_unleased(self._open(), name, limit, ctypes.byref(id)))
        return id.value

    def next_ids(self, tag: str, count: int, timeout: Optional[float] = None) -> List[int]:
        """`count` ids, in the order in which they were issued, straight from the daemon: all or none."""
        return self.next_ids_array(tag, count, timeout).tolist()

    def next_ids_array(self, tag: str, count: int, timeout: Optional[float] = None) -> "array[int]":
        """As :meth:`next_ids`, without a Python int for each: an ``array("Q")``."""
        if count < 0:
            raise InvalidArgument(f"a count is from 0 up, not {count}")
        ids = array("Q", bytes(8 * count))
        self.next_ids_into(tag, ids, timeout)
        return ids

    def next_ids_into(self, tag: str, buffer: Any, timeout: Optional[float] = None) -> None:
        """Fills a buffer with ids: an ``array("Q")``, a NumPy array of 64-bit integers, a memoryview of such.

        It must be writable and contiguous. When the call fails, nothing is written.
        """
        with memoryview(buffer) as view:
            if view.itemsize != 8 or view.format not in ("Q", "q", "L", "l", "N", "n"):
                raise InvalidArgument(f"ids need items of 64-bit integers, not {view.format!r}")
            if view.readonly or not view.c_contiguous:
                raise InvalidArgument("ids need a buffer that is writable and contiguous")
            count = view.nbytes // 8
            handle, limit = self._tags[tag], library.milliseconds(timeout)
            if count == 0:
                return
            places = (ctypes.c_uint64 * count).from_buffer(view.cast("B"))
            try:
                library.check(library.tag_next_many(handle, limit, places, count))
            finally:
                # It keeps the caller's buffer from being resized.
                del places

    def ids(self, tag: str) -> Iterator[int]:
        """Ids without end, one :meth:`next_id` each. It holds none: it goes on in a forked child as well."""
        while True:
            yield self.next_id(tag)

    def connect(self) -> "Client":
        """Connects now, and agrees with the daemon on the protocol's version. Returns the client."""
        library.check(library.connect(self._open()))
        return self

    def layout(self, name: str = "snowflake") -> Layout:
        """The layout of the snowflake ids that are drawn under the tag name `name`, as the daemon has it."""
        return layout_of(self._open(), name)

    def close(self) -> None:
        """Lets go of the connection and of the ids held, once calls of other threads are done."""
        self._handle = None
        self._tags = _Closed()

    def _open(self) -> library.ClientHandle:
        handle = self._handle
        if handle is None:
            raise ValueError("the client is closed")
        return handle

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def __reduce__(self) -> Tuple[Any, ...]:
        return _rebuild, self._settings

    def __repr__(self) -> str:
        return f"<leafd.Client socket={self._settings[0]!r}{'' if self._handle else ' closed'}>"


def _rebuild(socket: Optional[str], timeout: float, leased: bool, polling: bool) -> Client:
    return Client(socket, timeout=timeout, leased=leased, polling=polling)


class _Tags(Dict[str, library.TagHandle]):
    """A client's tags by name, made when they are first used. No lock: at worst one is made twice."""

    __slots__ = ("_client",)

    def __init__(self, client: library.ClientHandle) -> None:
        super().__init__()
        self._client = client

    def __missing__(self, tag: str) -> library.TagHandle:
        handle = library.TagHandle()
        library.check(library.tag_new(self._client, library.name_bytes(tag), 0, ctypes.byref(handle)))
        self[tag] = handle
        return handle


class _Closed(Dict[str, library.TagHandle]):
    """The tags of a client that is closed."""

    def __missing__(self, tag: str) -> library.TagHandle:
        raise ValueError("the client is closed")

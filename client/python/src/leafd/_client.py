"""The blocking client."""

from __future__ import annotations

import ctypes
import os
from array import array
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple, Type, Union

from . import _library as library
from ._errors import InvalidArgumentError
from ._layout import Info, Layout, layout_of
from ._public_ids import Form, PublicIds

_take: Callable[[library.TagHandle], int] = library.take


class Client:
    """A client of the daemon, for all threads of a process and, with their own connections, its forked children.

    It connects on first use; call :meth:`connect` to connect immediately. While a call waits, other threads run, and so
    do signal handlers (so Ctrl-C ends the call at once) and, if gevent has patched the process, greenlets. Clients can
    be pickled, which creates a new client in the other process.

    - `socket`: the path of the daemon's socket, 1 to 107 bytes; by default `$LEAFD_SOCKET`, otherwise the socket of
      this user's daemon or of the system's.
    - `timeout`: the default timeout of calls, in seconds, capped at 60; 0 counts as 1 ms. After it, a call waits up to
      0.25 s more for the daemon's error.
    - `wait`: how long calls without their own timeout wait for a missing daemon before the timeout starts, in seconds,
      at most 3600. They wait for at least the timeout. With 0, calls fail immediately if no daemon has ever run; if the
      daemon appears to be restarting, they wait for it until the timeout.
    - `direct`: whether to draw each id directly, with a separate request, so that the ids of a tag are strictly
      increasing on this host. Otherwise most ids come from a run that the process holds, in well under a microsecond.
    - `polling`: whether a waiting thread may poll for some microseconds, or yield its core, before it sleeps.

    Every call may raise a subclass of :class:`leafd.Error`. A tag's name has 1 to 128 characters, none of them a
    control character.
    """

    __slots__ = ("__weakref__", "_handle", "_settings", "_socket", "_tags")

    def __init__(
        self,
        socket: Optional[Union[str, "os.PathLike[str]"]] = None,
        *,
        timeout: float = 2.0,
        wait: float = 0.0,
        direct: bool = False,
        polling: bool = True,
    ) -> None:
        self._settings = _Settings(None if socket is None else os.fspath(socket), timeout, wait, direct, polling)
        path = None if socket is None else os.fsencode(socket)
        if path is not None and b"\0" in path:
            raise InvalidArgumentError("a socket path must not contain a zero byte")
        flags = (library.DIRECT if direct else 0) | (0 if polling else library.NO_POLLING)
        # The library would replace 0 with its default.
        limits = max(1, library.limit_milliseconds(timeout)), library.wait_milliseconds(wait)
        handle = library.ClientHandle()
        library.call(library.client_new, library.Settings(path, *limits, flags), ctypes.byref(handle))
        self._handle: Optional[library.ClientHandle] = handle
        self._socket = library.socket_path(handle)
        self._tags: Dict[str, library.TagHandle] = _Tags(handle)

    def next_id(self, tag: str, timeout: Optional[float] = None) -> int:
        """Returns the next id of `tag`: a unique number from 1 to 2**63 - 1.

        `timeout`: in seconds, capped at 60; by default the client's. With 0, the call doesn't wait in the daemon. This
        is the same for all calls.
        """
        return _take(self._tags[tag]) or self._next_slow(tag, timeout)

    def _next_slow(self, tag: str, timeout: Optional[float]) -> int:
        handle = self._tags[tag]
        id = ctypes.c_uint64()
        library.tag_next(handle, library.milliseconds(timeout), ctypes.byref(id))
        return id.value

    def held_id(self, tag: str) -> Optional[int]:
        """Returns an id from the held run without waiting, or None if no id is held. Event loops use it."""
        return _take(self._tags[tag]) or None

    def next_id_direct(self, tag: str, timeout: Optional[float] = None) -> int:
        """Draws the next id of `tag` directly. It is higher than any id drawn directly on this host before."""
        id = ctypes.c_uint64()
        name = library.name_bytes(tag)
        limit = library.milliseconds(timeout)
        library.next_direct(self._open(), name, limit, ctypes.byref(id))
        return id.value

    def next_ids(self, tag: str, count: int, timeout: Optional[float] = None) -> List[int]:
        """Returns `count` ids from the daemon, in the order in which they were issued: all of them, or none.

        `count`: at most 1,000,000,000; each million takes one request.
        """
        return self.next_ids_array(tag, count, timeout).tolist()

    def next_ids_array(self, tag: str, count: int, timeout: Optional[float] = None) -> "array[int]":
        """Returns the same as :meth:`next_ids`, but as an ``array("Q")`` instead of Python ints."""
        library.check_count(count)
        ids = array("Q", bytes(8 * count))
        self.next_ids_into(tag, ids, timeout)
        return ids

    def next_ids_into(self, tag: str, buffer: Any, timeout: Optional[float] = None) -> None:
        """Fills a buffer with ids: an ``array("Q")``, a NumPy array of 64-bit integers, or a memoryview of one.

        The buffer must be writable and contiguous. If the call fails, nothing is written.
        """
        handle, limit = self._tags[tag], library.milliseconds(timeout)
        with _places(buffer) as view:
            count = view.nbytes // 8
            if count == 0:
                return
            places = (ctypes.c_uint64 * count).from_buffer(view)
            try:
                library.tag_next_many(handle, limit, places, count)
            finally:
                # While `places` exists, the caller's buffer can't be resized.
                del places

    def ids(self, tag: str) -> Iterator[int]:
        """Yields ids endlessly, using :meth:`next_id`. The iterator holds no ids, so it works in forked children."""
        while True:
            yield self.next_id(tag)

    def public_ids(self, tag: str, *, prefix: str = "", bits: int = 63, key: int = 0) -> PublicIds:
        """Returns a converter between a tag's dense ids and public ids, which reveal neither count nor order.

        `prefix`: the prefix of texts, before a `_`: a letter, then `a` to `z`, `0` to `9` or `_`, at most 32
        characters. `bits`: the width of dense and public ids, from 20 to 63; 53 for JavaScript's numbers. `key`: the
        number of the key, from 1 to 31; 0 means the daemon's current one. Texts contain the number of their key. Use
        the same form in both directions.
        """
        return PublicIds(self._open, self.socket, Form.of(tag, prefix, bits, key))

    def next_number(self, series: str, tenant: str = "", timeout: Optional[float] = None) -> str:
        """Returns the next document number of a series, such as `INV-2026-000123`.

        `tenant`: for a series with tenants, letters and digits. The call raises :class:`leafd.UnknownTagError` if there
        is no such series, :class:`leafd.InvalidArgumentError` for a tenant that the series can't have, and
        :class:`leafd.UnavailableError` during a store outage if the daemon doesn't know the period or holds no numbers
        for it.
        """
        return self.next_numbers(series, 1, tenant, timeout)[0]

    def next_numbers(self, series: str, count: int, tenant: str = "", timeout: Optional[float] = None) -> List[str]:
        """Returns `count` document numbers of a series, at most 1,000,000, as :meth:`next_number` does. They may span
        two periods."""
        check_numbers(count)
        texts = ((ctypes.c_char * _NUMBER_BYTES) * count)()
        names = library.name_bytes(series), library.name_bytes(tenant)
        library.series_next(self._open(), *names, library.milliseconds(timeout), texts, count)
        return [text.value.decode() for text in texts]

    @property
    def socket(self) -> str:
        """The path of the daemon's socket, as determined when the client was created."""
        return self._socket

    def connect(self) -> "Client":
        """Connects now, negotiates the protocol version, and returns the client."""
        self.info()
        return self

    def info(self, timeout: Optional[float] = None) -> Info:
        """Returns what the daemon reports about itself, such as whether it is ready."""
        told = library.DaemonInfo()
        library.info(self._open(), library.milliseconds(timeout), ctypes.byref(told))
        return Info(told.release.decode(), told.segments_ready, told.snowflake_ready, told.pid)

    def layout(self, name: str = "snowflake") -> Layout:
        """Returns the daemon's layout of the snowflake ids drawn under the tag name `name`. An unknown name raises
        :class:`leafd.InvalidArgumentError`."""
        return layout_of(self._open(), name)

    def close(self) -> None:
        """Closes the connections and drops held ids, once the calls of other threads have returned."""
        self._handle = None
        self._tags = Closed()

    def _open(self) -> library.ClientHandle:
        handle = self._handle
        if handle is None:
            raise library.closed()
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
        return _rebuild, tuple(self._settings)

    def __repr__(self) -> str:
        return f"<leafd.Client socket={self.socket!r}{'' if self._handle else ' closed'}>"


_NUMBER_BYTES = 256
"""The size of a document number, including the terminating NUL."""

_NUMBERS_MAX = 1_000_000


def check_numbers(count: int) -> None:
    """Rejects an invalid count of document numbers."""
    if not isinstance(count, int) or not 0 <= count <= _NUMBERS_MAX:
        raise InvalidArgumentError(f"a count of numbers is an int from 0 to {_NUMBERS_MAX}, not {count!r}")


class _Settings(NamedTuple):
    """The constructor arguments of a client."""

    socket: Optional[str]
    timeout: float
    wait: float
    direct: bool
    polling: bool


@contextmanager
def _places(buffer: Any) -> Iterator[memoryview]:
    """Yields the bytes of a buffer that ids can be written to."""
    with memoryview(buffer) as view:
        if view.itemsize != 8 or view.format not in ("Q", "q", "L", "l", "N", "n"):
            raise InvalidArgumentError(f"a buffer for ids needs items of 64-bit integers, not {view.format!r}")
        if view.readonly or not view.c_contiguous:
            raise InvalidArgumentError("a buffer for ids must be writable and contiguous")
        with view.cast("B") as places:
            yield places


def fill(buffer: Any, draw: Callable[[int], List[int]]) -> None:
    """Fills a buffer with ids from a function that returns Python ints."""
    with _places(buffer) as places, places.cast("Q") as numbers:
        numbers[:] = array("Q", draw(len(numbers)))


def _rebuild(socket: Optional[str], timeout: float, wait: float, direct: bool, polling: bool) -> Client:
    return Client(socket, timeout=timeout, wait=wait, direct=direct, polling=polling)


class _Tags(Dict[str, library.TagHandle]):
    """A client's tags by name, created on first use. It needs no lock: at worst, a tag is created twice."""

    __slots__ = ("_client",)

    def __init__(self, client: library.ClientHandle) -> None:
        super().__init__()
        self._client = client

    def __missing__(self, tag: str) -> library.TagHandle:
        handle = library.TagHandle()
        library.call(library.tag_new, self._client, library.name_bytes(tag), 0, ctypes.byref(handle))
        self[tag] = handle
        return handle


class Closed(Dict[str, library.TagHandle]):
    """The tags of a closed client."""

    def __missing__(self, tag: str) -> library.TagHandle:
        raise library.closed()

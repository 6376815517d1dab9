"""For tests of programs that use leafd: a client that needs no daemon, and a temporary daemon.

    from leafd.testing import FakeClient, daemon

    ids = FakeClient()
    assert [ids.next_id("orders"), ids.next_id("orders")] == [1, 2]

    with daemon(tags=["orders"]) as here, here.client() as client:
        order_id = client.next_id("orders")

With pytest, `pytest_plugins = ["leafd.pytest_plugin"]` in a conftest.py provides the fixtures `fake_leafd` and
`leafd_daemon`.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from array import array
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, AsyncIterator, Dict, Iterable, Iterator, List, Optional, Type

from . import _library as library
from ._client import Client, check_numbers, fill
from ._errors import Error, InvalidArgumentError, UnknownTagError
from ._fake_public_ids import FakeAsyncPublicIds, FakePublicIds
from ._layout import LEAF, Info, Layout, first_id_at
from ._protocol import HEADER, refusal
from ._public_ids import Form

_READY_SECONDS_MAX = 30.0
_STOP_SECONDS_MAX = 30.0
_TAG_CREATE = 16


@dataclass(frozen=True)
class Call:
    """A recorded call of a :class:`FakeClient`: the method's name, the tag, and the number of ids."""

    method: str
    tag: str
    count: int


class FakeClient:
    """A :class:`leafd.Client` without a daemon, whose ids are predictable.

    The ids of a tag are 1, 2, 3 and so on, in the order of the calls, or start at `starts[tag]`. Those of `snowflake`
    have Leaf's layout and worker 0, one per millisecond from the beginning of 2026 (UTC). `tags`: the existing tags;
    any other raises :class:`leafd.UnknownTagError`. By default every tag exists.

    Public ids are predictable as well: the public id of the dense id `n` is `2**bits - n`, and its text has the real
    form, with key 1.

    `calls` records each call, in order. :meth:`fail` makes later calls fail.
    """

    socket = "/fake/leafd.sock"

    def __init__(self, *, starts: Optional[Dict[str, int]] = None, tags: Optional[Iterable[str]] = None) -> None:
        self.calls: List[Call] = []
        self._starts = dict(starts or {})
        self._tags = None if tags is None else {"snowflake", *tags}
        self._next: Dict[str, int] = {}
        self._failures: List[Error] = []
        self._lock = threading.Lock()
        self._closed = False

    def fail(self, error: Error, times: int = 1) -> None:
        """Makes the next `times` calls that draw, mask or unmask ids raise `error`."""
        with self._lock:
            self._failures.extend([error] * times)

    def reset(self) -> None:
        """Clears calls and failures, and restarts the ids."""
        with self._lock:
            self.calls.clear()
            self._next.clear()
            self._failures.clear()

    def next_id(self, tag: str, timeout: Optional[float] = None) -> int:
        """Same as :meth:`leafd.Client.next_id`."""
        return self._draw("next_id", tag, 1, timeout)[0]

    def next_id_direct(self, tag: str, timeout: Optional[float] = None) -> int:
        """Same as :meth:`leafd.Client.next_id_direct`."""
        return self._draw("next_id_direct", tag, 1, timeout)[0]

    def held_id(self, tag: str) -> Optional[int]:
        """Same as :meth:`leafd.Client.held_id`, but always returns an id."""
        return self._draw("held_id", tag, 1, None)[0]

    def next_ids(self, tag: str, count: int, timeout: Optional[float] = None) -> List[int]:
        """Same as :meth:`leafd.Client.next_ids`."""
        return self._draw("next_ids", tag, count, timeout)

    def next_ids_array(self, tag: str, count: int, timeout: Optional[float] = None) -> "array[int]":
        """Same as :meth:`leafd.Client.next_ids_array`."""
        return array("Q", self._draw("next_ids_array", tag, count, timeout))

    def next_ids_into(self, tag: str, buffer: Any, timeout: Optional[float] = None) -> None:
        """Same as :meth:`leafd.Client.next_ids_into`."""
        fill(buffer, lambda count: self._draw("next_ids_into", tag, count, timeout))

    def ids(self, tag: str) -> Iterator[int]:
        """Same as :meth:`leafd.Client.ids`."""
        while True:
            yield self.next_id(tag)

    def public_ids(self, tag: str, *, prefix: str = "", bits: int = 63, key: int = 0) -> FakePublicIds:
        """Same as :meth:`leafd.Client.public_ids`."""
        return FakePublicIds(self._masked, Form.of(tag, prefix, bits, key))

    def next_number(self, series: str, tenant: str = "", timeout: Optional[float] = None) -> str:
        """Same as :meth:`leafd.Client.next_number`, but with other texts, such as `invoices-1` or `orders-ACME-1`."""
        return self.next_numbers(series, 1, tenant, timeout)[0]

    def next_numbers(self, series: str, count: int, tenant: str = "", timeout: Optional[float] = None) -> List[str]:
        """Same as :meth:`leafd.Client.next_numbers`; see :meth:`next_number`."""
        check_numbers(count)
        name = f"{series}-{tenant.upper()}" if tenant else series
        return [f"{name}-{number}" for number in self._draw("next_numbers", name, count, timeout)]

    def _masked(self, method: str, tag: str, count: int, timeout: Optional[float]) -> None:
        self._check_open()
        library.milliseconds(timeout)
        with self._lock:
            self.calls.append(Call(method, tag, count))
            if self._failures:
                raise self._failures.pop(0)

    def connect(self) -> "FakeClient":
        """Same as :meth:`leafd.Client.connect`, but does nothing."""
        self._check_open()
        return self

    def info(self, timeout: Optional[float] = None) -> Info:
        """Same as :meth:`leafd.Client.info`. A fake is always ready."""
        self._check_open()
        library.milliseconds(timeout)
        return Info(library.library_version(), True, True, os.getpid())

    def layout(self, name: str = "snowflake") -> Layout:
        """Same as :meth:`leafd.Client.layout`, but only for `snowflake`."""
        self._check_open()
        if name != "snowflake":
            raise InvalidArgumentError(f"leafd has no layout {name!r}; it has snowflake")
        return LEAF

    def close(self) -> None:
        """Same as :meth:`leafd.Client.close`."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise library.closed()

    def _draw(self, method: str, tag: str, count: int, timeout: Optional[float]) -> List[int]:
        self._check_open()
        library.milliseconds(timeout)
        library.check_count(count)
        name = library.name_bytes(tag)
        if not name:
            raise InvalidArgumentError(f"{tag!r} is not a valid tag: it is empty")
        with self._lock:
            self.calls.append(Call(method, tag, count))
            if self._failures:
                raise self._failures.pop(0)
            if self._tags is not None and tag not in self._tags:
                raise UnknownTagError(f"leafd answered TAG_UNKNOWN: there is no tag {tag!r} in this fake")
            first, stride = self._starts.get(tag, 1), 1
            if tag == "snowflake":
                first, stride = first_id_at(datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)), 1 << 22
                first = self._starts.get(tag, first)
            first = self._next.get(tag, first)
            self._next[tag] = first + count * stride
        return list(range(first, first + count * stride, stride))

    def __enter__(self) -> "FakeClient":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()


class FakeAsyncClient:
    """A :class:`leafd.AsyncClient` without a daemon, backed by a :class:`FakeClient`. `client`: the fake to use; by
    default a new one, with the other arguments."""

    def __init__(self, client: Optional[FakeClient] = None, **settings: Any) -> None:
        self.fake = FakeClient(**settings) if client is None else client

    @property
    def calls(self) -> List[Call]:
        """The calls that the :class:`FakeClient` has recorded."""
        return self.fake.calls

    async def next_id(self, tag: str, timeout: Optional[float] = None) -> int:
        """Same as :meth:`leafd.AsyncClient.next_id`."""
        return self.fake.next_id(tag, timeout)

    async def next_id_direct(self, tag: str, timeout: Optional[float] = None) -> int:
        """Same as :meth:`leafd.AsyncClient.next_id_direct`."""
        return self.fake.next_id_direct(tag, timeout)

    async def next_ids(self, tag: str, count: int, timeout: Optional[float] = None) -> List[int]:
        """Same as :meth:`leafd.AsyncClient.next_ids`."""
        return self.fake.next_ids(tag, count, timeout)

    async def ids(self, tag: str) -> AsyncIterator[int]:
        """Same as :meth:`leafd.AsyncClient.ids`."""
        while True:
            yield await self.next_id(tag)

    def public_ids(self, tag: str, *, prefix: str = "", bits: int = 63, key: int = 0) -> FakeAsyncPublicIds:
        """Same as :meth:`leafd.AsyncClient.public_ids`."""
        return FakeAsyncPublicIds(self.fake.public_ids(tag, prefix=prefix, bits=bits, key=key))

    async def next_number(self, series: str, tenant: str = "", timeout: Optional[float] = None) -> str:
        """Same as :meth:`FakeClient.next_number`."""
        return self.fake.next_number(series, tenant, timeout)

    async def next_numbers(
        self, series: str, count: int, tenant: str = "", timeout: Optional[float] = None
    ) -> List[str]:
        """Same as :meth:`FakeClient.next_numbers`."""
        return self.fake.next_numbers(series, count, tenant, timeout)

    async def connect(self) -> "FakeAsyncClient":
        """Same as :meth:`leafd.AsyncClient.connect`."""
        self.fake.connect()
        return self

    async def info(self, timeout: Optional[float] = None) -> Info:
        """Same as :meth:`leafd.AsyncClient.info`."""
        return self.fake.info(timeout)

    async def layout(self, name: str = "snowflake") -> Layout:
        """Same as :meth:`leafd.AsyncClient.layout`."""
        return self.fake.layout(name)

    def close(self) -> None:
        """Same as :meth:`leafd.AsyncClient.close`."""
        self.fake.close()

    async def aclose(self) -> None:
        """Same as :meth:`leafd.AsyncClient.aclose`."""
        self.close()

    async def __aenter__(self) -> "FakeAsyncClient":
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()


class Daemon:
    """A real daemon with an embedded store, in its own directory `folder`. It listens on `socket`."""

    def __init__(self, folder: Path, program: str) -> None:
        self.folder = folder
        self.program = program
        self.socket = str(folder / "leafd.sock")
        self._process: "Optional[subprocess.Popen[bytes]]" = None

    def start(self) -> None:
        """Starts the daemon, and waits up to 30 s until it issues ids."""
        command = [self.program, "--socket", self.socket, "--state-dir", str(self.folder / "state")]
        command += ["--worker", "static:0", "--set", f"worker_lock_dir={self.folder}"]
        # The daemon would read these variables as settings, but they are for other daemons.
        variables = {name: value for name, value in os.environ.items() if not name.startswith("LEAFD_")}
        with open(self.folder / "log", "ab") as log:
            quiet = subprocess.DEVNULL
            self._process = subprocess.Popen(command, env=variables, stdin=quiet, stdout=log, stderr=log)
        end = time.monotonic() + _READY_SECONDS_MAX
        while True:
            try:
                with self.client() as client:
                    client.next_id_direct("snowflake")
                return
            except Error as error:
                if self._process.poll() is not None or time.monotonic() > end:
                    said = (self.folder / "log").read_text()
                    self.kill()
                    raise RuntimeError(f"{self.program} doesn't start: {error}\n{said}") from None
                time.sleep(0.01)

    def stop(self) -> None:
        """Stops the daemon cleanly; :meth:`start` continues with its state."""
        if self._process is not None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_SECONDS_MAX)
            self.kill()

    def kill(self) -> None:
        """Kills the daemon with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def create(self, tag: str, **members: object) -> None:
        """Creates a tag. `members`: `start`, `step`, `ceiling`, `strict` and `description`, as in `leafctl tag create`."""
        body = json.dumps({"tag": tag, **members}).encode()
        with socket.socket(socket.AF_UNIX) as line, line.makefile("rb") as answers:
            line.settimeout(_READY_SECONDS_MAX)
            line.connect(self.socket)
            line.sendall(HEADER.pack(8 + len(body), _TAG_CREATE, 0, 0, 1) + body)
            length, _, _, status, _ = HEADER.unpack(answers.read(HEADER.size))
            answer = answers.read(length - 8)
        if status:
            raise refusal(status, answer)

    def client(self, **settings: Any) -> Client:
        """Returns a client of this daemon; `settings` are those of :class:`leafd.Client`."""
        return Client(self.socket, **settings)


@contextlib.contextmanager
def daemon(tags: Iterable[str] = (), program: Optional[str] = None) -> Iterator[Daemon]:
    """A context manager with a :class:`Daemon` that has `tags`, each starting at 1.

    `program`: the path of the daemon; by default `$LEAFD_PROGRAM`, else `leafd` from PATH.
    """
    named = program or os.environ.get("LEAFD_PROGRAM") or "leafd"
    found = shutil.which(named)
    if found is None:
        raise FileNotFoundError(f"{named} not found: install leafd, or set LEAFD_PROGRAM to the path of the daemon")
    # This isn't in a test's own directory, because that path may be too long for a socket.
    with tempfile.TemporaryDirectory(prefix="leafd-test-") as folder:
        here = Daemon(Path(folder), found)
        here.start()
        try:
            for tag in tags:
                here.create(tag)
            yield here
        finally:
            here.stop()

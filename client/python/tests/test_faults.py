"""Tests faults around a client: restarts of the daemon, other programs on the socket, and the system's limits."""

import errno
import multiprocessing
import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from multiprocessing.synchronize import Event
from typing import Callable, Iterator, List, Tuple

import leafd
import pytest
from conftest import BINARIES, Host, check_unique

PROCESSES = 4


def draw_until(client: leafd.Client, stop: Event, results: "multiprocessing.Queue[List[int]]") -> None:
    """Draws ids with every kind of call, and retries failed calls."""
    ids: List[int] = []
    while not stop.is_set():
        try:
            ids += [client.next_id("orders") for _ in range(50)]
            ids.append(client.next_id_direct("orders"))
            ids += client.next_ids("orders", 5)
            ids.append(client.next_id("snowflake"))
        except leafd.Error as error:
            assert error.retryable, error
        time.sleep(0.001)
    results.put(ids)


def test_four_processes_draw_while_the_daemon_comes_and_goes(host: Host) -> None:
    fork = multiprocessing.get_context("fork")
    client = host.client(timeout=5.0)
    ids = [client.next_id("orders") for _ in range(3)]
    stop, results = fork.Event(), fork.Queue()
    processes = [fork.Process(target=draw_until, args=(client, stop, results)) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    # This looks like an upgrade to another release: one program stops, and another one starts.
    other = host.folder / "leafd"
    shutil.copy2(BINARIES / "leafd", other)
    for how, program in ((signal.SIGTERM, BINARIES / "leafd"), (signal.SIGKILL, other)) * 2:
        time.sleep(0.4)
        host.stop(how)
        time.sleep(0.1)
        host.start(program)
    time.sleep(0.3)
    host.pause()
    time.sleep(0.3)
    host.resume()
    time.sleep(0.3)
    stop.set()
    for _ in processes:
        ids += results.get(timeout=60)
    for process in processes:
        process.join(30)
        assert process.exitcode == 0
    # The ids of a segment tag and of a layout never coincide here, because the tag is new.
    check_unique(ids)
    assert len(ids) > 1000


def test_a_daemon_that_never_was_is_told_at_once(idle_host: Host) -> None:
    client = idle_host.client()
    for call in (client.connect, lambda: client.next_id("orders"), lambda: client.next_ids("orders", 5)):
        with pytest.raises(leafd.ConnectError, match="is the daemon running") as caught:
            call()
        assert isinstance(caught.value, ConnectionError)
        assert (caught.value.errno, caught.value.retryable) == (errno.ENOENT, True)
    # The client finds the daemon once it starts.
    idle_host.start()
    idle_host.create("orders")
    check_unique(client.next_ids("orders", 5), 5)


@pytest.mark.parametrize(("timeout", "wait"), [(2.0, 30.0), (30.0, 0.1)])
def test_a_client_waits_for_a_daemon_that_comes_later(idle_host: Host, timeout: float, wait: float) -> None:
    client = idle_host.client(timeout=timeout, wait=wait)
    with pytest.raises(leafd.ConnectError):
        client.next_id("snowflake", timeout=0.1)
    ids: List[int] = []
    calls = [lambda: ids.append(client.next_id("snowflake")), lambda: ids.append(client.next_id_direct("snowflake"))]
    callers = [threading.Thread(target=call) for call in calls * 4]
    for caller in callers:
        caller.start()
    # This is longer than a call takes without waiting.
    time.sleep(2.5)
    idle_host.start()
    for caller in callers:
        caller.join(30)
    check_unique(ids, 8)


def test_the_whole_time_is_waited(idle_host: Host) -> None:
    begun = time.monotonic()
    with pytest.raises(leafd.ConnectError):
        idle_host.client(timeout=0.01, wait=0.3).next_id("orders")
    assert time.monotonic() - begun >= 0.3


def test_a_first_call_waits_where_a_daemon_restarts(host: Host) -> None:
    for how in (signal.SIGTERM, signal.SIGKILL):
        host.stop(how)
        client = host.client()
        ids: List[int] = []
        caller = threading.Thread(target=lambda: ids.extend(client.next_ids("orders", 5)))
        caller.start()
        time.sleep(0.2)
        host.start()
        caller.join(30)
        check_unique(ids, 5)


# Python itself may be readable only by its owner, so all modules are imported first.
WITHOUT_PERMISSION = """
import os
import leafd
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    leafd.Client().connect()
except leafd.ConnectError as error:
    assert (error.errno, error.retryable) == (13, False), error
    assert "socket_mode" in str(error), error
    print(1)
"""


def test_a_socket_without_permission_is_told(host: Host) -> None:
    os.chmod(host.socket, 0o600 if os.getuid() == 0 else 0)
    done = subprocess.run([sys.executable, "-c", WITHOUT_PERMISSION], env=host.environment(), capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("1\n", 0), done.stderr


def test_timeouts_hold_while_the_daemon_is_frozen(host: Host) -> None:
    client = host.client().connect()
    host.pause()
    for call in (
        lambda: client.next_id("orders", timeout=0.1),
        lambda: client.next_id_direct("orders", timeout=0.1),
        lambda: client.next_ids("orders", 5, timeout=0.1),
    ):
        with pytest.raises(leafd.TimeoutError) as caught:
            call()
        assert isinstance(caught.value, TimeoutError) and caught.value.retryable
    host.resume()
    check_unique([client.next_id("orders"), client.next_id_direct("orders")], 2)


def test_descriptors_beyond_1024_are_fine(host: Host) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    held = [os.open("/dev/null", os.O_RDONLY) for _ in range(1500)]
    try:
        assert max(held) > 1024
        client = host.client()
        ids = [client.next_id("orders"), client.next_id_direct("orders")] + client.next_ids("orders", 5)
        # With no descriptors left, the error is clear, and connected clients still work.
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(held) + 2, hard))
        with pytest.raises(leafd.ConnectError) as caught:
            while True:
                host.client().connect()
                held.append(os.dup(held[0]))
        assert caught.value.errno == errno.EMFILE
        ids.append(client.next_id_direct("orders"))
        check_unique(ids, 8)
    finally:
        for number in held:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# === daemons of other releases ===

Answer = Callable[[int, int, bytes], bytes]


def reply(opcode: int, status: int, request: int, body: bytes, flags: int = 0) -> bytes:
    """Returns a frame as a daemon sends it."""
    return struct.pack("<IBBHI", 8 + len(body), opcode | 128, flags, status, request) + body


def refusal(opcode: int, status: int, request: int, message: str) -> bytes:
    """Returns a frame with a refusal."""
    return reply(opcode, status, request, struct.pack("<I", 0) + message.encode())


class Stranger:
    """A fake daemon of another release. `answer` receives the opcode, the request id and the body."""

    def __init__(self, path: str, answer: Answer) -> None:
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        self.answer = answer
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        """Answers one connection after another, until the listener is closed."""
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as requests:
                while len(header := requests.read(12)) == 12:
                    length, opcode, _, _, request = struct.unpack("<IBBHI", header)
                    try:
                        connection.sendall(self.answer(opcode, request, requests.read(length - 8)))
                    except OSError:
                        break


@pytest.fixture
def path(idle_host: Host) -> Iterator[str]:
    """The path of a socket on which no daemon listens."""
    yield idle_host.socket


def played(path: str, answer: Answer) -> Tuple[Stranger, leafd.Client]:
    """Returns a fake daemon and its client."""
    return Stranger(path, answer), leafd.Client(path, timeout=5.0)


def test_a_newer_daemon_that_dropped_the_version_is_refused_clearly(path: str) -> None:
    _, client = played(path, lambda opcode, request, _: refusal(opcode, 3, request, "this daemon speaks 2 to 3"))
    for call in (client.connect, lambda: client.next_id("orders"), lambda: client.next_ids("orders", 5)):
        with pytest.raises(leafd.ProtocolError, match="speaks 2 to 3") as caught:
            call()
        assert not caught.value.retryable


def test_a_daemon_that_chooses_a_version_not_offered_is_refused_clearly(path: str) -> None:
    info = struct.pack("<HHIIIII", 2, 3, 65536, 10**6, 1024, 60000, 1) + struct.pack("<H5sH", 5, b"9.0.0", 0)
    _, client = played(path, lambda opcode, request, _: reply(opcode, 0, request, info))
    with pytest.raises(leafd.ProtocolError, match=r"9\.0\.0 chose protocol version 2"):
        client.connect()


def test_a_newer_daemon_of_the_same_version_is_understood(path: str) -> None:
    # Flags, trailing fields and statuses that this release doesn't know.
    info = struct.pack("<HHIIIII", 1, 0xFFFF, 65536, 10**6, 1024, 60000, 1) + struct.pack("<H5sH", 5, b"9.0.0", 0)

    def answer(opcode: int, request: int, body: bytes) -> bytes:
        if opcode == 1:
            return reply(opcode, 0, request, info + b"something new", flags=0xFE)
        if body.endswith(b"orders"):
            return reply(opcode, 0, request, struct.pack("<IHHQII", 0, 1, 0, 77, 1, 1), flags=0xFE)
        return refusal(opcode, 777, request, "a new reason")

    _, client = played(path, answer)
    client.connect()
    assert client.next_id("orders") == 77
    with pytest.raises(leafd.InternalError, match="777.*a new reason"):
        client.next_id("other")


def test_an_older_daemon_without_a_request_is_told(path: str) -> None:
    _, client = played(path, lambda opcode, request, _: refusal(opcode, 2, request, "no such opcode"))
    with pytest.raises(leafd.ProtocolError, match="no such opcode"):
        client.next_id("orders")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        struct.pack("<IHHQII", 0, 1, 0, 0, 1, 1),
        struct.pack("<IHHQII", 0, 1, 0, 1 << 63, 1, 1),
        struct.pack("<IHHQII", 0, 1, 0, 5, 0, 1),
        struct.pack("<IHHQII", 0, 1, 0, 5, 2, 1),
        struct.pack("<IHH", 0, 0, 0),
    ],
)
def test_an_answer_that_is_none_gives_no_id(path: str, body: bytes) -> None:
    _, client = played(path, lambda opcode, request, _: reply(opcode, 0, request, body))
    with pytest.raises(leafd.ProtocolError):
        client.next_id_direct("orders")

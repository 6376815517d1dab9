"""Tests every way in which Python creates processes, each in the middle of a held run. Every id is checked."""

import ctypes
import errno
import multiprocessing
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Callable, List, Tuple

import leafd
import pytest
from conftest import Host, check_unique

# A child that hangs (for example, on a lock of its parent) is killed after this many seconds.
CHILD_SECONDS_MAX = 60


def draw(client: leafd.Client) -> List[int]:
    """Draws ids with every kind of call."""
    ids = [client.next_id("orders") for _ in range(150)]
    ids += [client.next_id_direct("orders") for _ in range(5)]
    return ids + client.next_ids("orders", 10)


def draw_as(job: Tuple[leafd.Client, int]) -> Tuple[int, List[int]]:
    """The work of a pool's worker. Returns the process id and the ids."""
    return os.getpid(), draw(job[0])


def in_child(work: Callable[[], List[int]]) -> Callable[[], List[int]]:
    """Forks, lets the child do the work, and returns a function that waits for its ids."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.alarm(CHILD_SECONDS_MAX)
            os.close(reader)
            ids = work()
            with os.fdopen(writer, "wb") as pipe:
                pipe.write(struct.pack(f"<{len(ids)}Q", *ids))
            code = 0
        finally:
            os._exit(code)
    os.close(writer)

    def wait() -> List[int]:
        with os.fdopen(reader, "rb") as pipe:
            drawn = pipe.read()
        assert os.waitpid(pid, 0)[1] == 0, "the child failed or hung"
        return list(struct.unpack(f"<{len(drawn) // 8}Q", drawn))

    return wait


def test_os_fork_with_children_and_grandchildren(host: Host) -> None:
    client = host.client()
    endless = client.ids("orders")
    ids: List[int] = []
    for _ in range(20):
        ids += [next(endless) for _ in range(7)]

        def child() -> List[int]:
            grandchild = in_child(lambda: draw(client))
            return draw(client) + [next(endless) for _ in range(20)] + grandchild()

        wait = in_child(child)
        ids += draw(client)
        ids += wait()
    check_unique(ids, 20 * (7 + 165 + 165 + 20 + 165))


def test_os_fork_amid_threads_that_draw(host: Host) -> None:
    client = host.client()
    ids: List[int] = []
    stop = threading.Event()

    def thread() -> None:
        drawn = []
        while not stop.is_set():
            drawn += [client.next_id("orders"), client.next_id_direct("orders")]
        ids.extend(drawn)

    threads = [threading.Thread(target=thread) for _ in range(3)]
    for each in threads:
        each.start()
    for _ in range(30):
        wait = in_child(lambda: draw(client))
        ids += draw(client)
        ids += wait()
    stop.set()
    for each in threads:
        each.join()
    check_unique(ids)


def test_a_child_may_close_and_reuse_the_descriptor(host: Host) -> None:
    client = host.client()
    ids = [client.next_id("orders") for _ in range(3)]
    [number] = [number for number in os.listdir("/proc/self/fd") if _is_connection(int(number), host.socket)]

    def child() -> List[int]:
        os.close(int(number))
        ours, theirs = socket.socketpair()
        os.dup2(ours.fileno(), int(number))
        drawn = draw(client)
        client.close()
        os.write(int(number), b"still open")
        assert theirs.recv(100) == b"still open", "the client closed or wrote to a descriptor that isn't its own"
        return drawn

    ids += in_child(child)()
    ids += draw(client)
    check_unique(ids)


def refuse_wipe_on_fork() -> None:
    """Makes madvise(…, MADV_WIPEONFORK) fail with EPERM from now on, with a seccomp filter for this process and its
    children.

    The numbers in it are for x86-64 and little-endian only.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    prctl, madvise, wipe_on_fork = libc.prctl, libc.madvise, 18
    load, jump_if_equal, answer = 0x20, 0x15, 0x06
    steps = [
        (load, 0, 0, 0),  # the call's number
        (jump_if_equal, 0, 3, 28),  # madvise
        (load, 0, 0, 32),  # its third argument
        (jump_if_equal, 0, 1, wipe_on_fork),
        (answer, 0, 0, 0x0005_0000 | errno.EPERM),
        (answer, 0, 0, 0x7FFF_0000),  # any other call
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", len(steps), ctypes.addressof(code)))
    assert prctl(38, 1, 0, 0, 0) == 0  # no new privileges
    assert prctl(22, 2, program, 0, 0) == 0  # the filter
    assert madvise(None, ctypes.c_size_t(4096), wipe_on_fork) == -1 and ctypes.get_errno() == errno.EPERM


def test_os_fork_where_the_kernel_wipes_nothing(host: Host) -> None:
    def parent() -> List[int]:
        refuse_wipe_on_fork()
        client = host.client()
        ids: List[int] = []
        for _ in range(10):
            ids += [client.next_id("orders") for _ in range(7)]
            wait = in_child(lambda: in_child(lambda: draw(client))() + draw(client))
            ids += draw(client)
            ids += wait()
        return ids

    check_unique(in_child(parent)(), 10 * (7 + 3 * 165))


def _is_connection(number: int, path: str) -> bool:
    try:
        duplicate = socket.socket(fileno=os.dup(number))
    except OSError:
        return False
    with duplicate:
        try:
            # The daemon binds another name next to it, and then renames the socket.
            return duplicate.family == socket.AF_UNIX and duplicate.getpeername().startswith(path)
        except OSError:
            return False


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_multiprocessing(host: Host, method: str) -> None:
    client = host.client()
    ids = [client.next_id("orders") for _ in range(7)]
    with multiprocessing.get_context(method).Pool(4) as pool:
        waiting = pool.map_async(draw_as, [(client, number) for number in range(40)], chunksize=1)
        ids += draw(client)
        done = waiting.get(CHILD_SECONDS_MAX)
    assert os.getpid() not in {pid for pid, _ in done}
    check_unique(ids + [id for _, drawn in done for id in drawn], 7 + 165 * 41)


inherited: leafd.Client


def draw_inherited(_: int) -> Tuple[int, List[int]]:
    """Works like a worker of a pre-forking server, with the client that the parent created and used."""
    return os.getpid(), draw(inherited)


@pytest.mark.parametrize("pool", ["multiprocessing", "concurrent.futures", "celery's"])
def test_prefork_pools_with_an_inherited_client(host: Host, pool: str) -> None:
    global inherited
    inherited = host.client()
    ids = [inherited.next_id("orders") for _ in range(7)]
    if pool == "concurrent.futures":
        with ProcessPoolExecutor(4, multiprocessing.get_context("fork")) as executor:
            results = executor.map(draw_inherited, range(40))
            ids += draw(inherited)
            done = list(results)
    else:
        if pool == "multiprocessing":
            workers = multiprocessing.get_context("fork").Pool(4, maxtasksperchild=5)
        else:
            # This is the prefork pool of Celery's workers.
            import billiard.pool  # type: ignore[import-untyped]

            workers = billiard.pool.Pool(4)
        waiting = workers.map_async(draw_inherited, range(40), 1)
        ids += draw(inherited)
        done = waiting.get(CHILD_SECONDS_MAX)
        # terminate() isn't used, because a worker of Celery's pool that gets SIGTERM at the wrong moment waits forever.
        workers.close()
        workers.join()
    assert len({pid for pid, _ in done}) > 1
    check_unique(ids + [id for _, drawn in done for id in drawn], 7 + 165 * 41)


APPLICATION = '''
import os
import leafd

client = leafd.Client(timeout=10.0)
# These ids are drawn before the fork, so the workers find a client with a half-used run.
PRELOADED = [client.next_id("orders") for _ in range(7)]


def application(environ, start_response):
    ids = [client.next_id("orders") for _ in range(100)] + client.next_ids("orders", 10)
    if environ["PATH_INFO"] == "/preloaded":
        ids = PRELOADED
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [" ".join(map(str, [os.getpid(), *ids])).encode()]
'''


def test_gunicorn_with_a_preloaded_application(host: Host, tmp_path: Path) -> None:
    (tmp_path / "application.py").write_text(APPLICATION)
    address = f"{host.folder}/http"
    command = [sys.executable, "-m", "gunicorn", "--preload", "--workers", "4", "--bind", f"unix:{address}"]
    command += ["--worker-tmp-dir", str(tmp_path), "--max-requests", "100", "application:application"]
    server = subprocess.Popen(command, cwd=tmp_path, env=host.environment(), stderr=subprocess.PIPE)
    try:
        end = time.monotonic() + 30
        while not os.path.exists(address):
            assert server.poll() is None and time.monotonic() < end
            time.sleep(0.05)
        with ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(lambda _: _get(address, "/"), range(600)))
        ids = _get(address, "/preloaded")[1:]
    finally:
        server.terminate()
        server.communicate(timeout=30)
    assert len({answer[0] for answer in answers}) >= 4
    for answer in answers:
        ids += answer[1:]
    check_unique(ids, 7 + 600 * 110)


def _get(address: str, path: str) -> List[int]:
    # A worker that has served its share closes its listener, and may then reject a request.
    for _ in range(50):
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(30)
                connection.connect(address)
                connection.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
                answer = b""
                while piece := connection.recv(65536):
                    answer += piece
            if answer.split(b" ", 2)[1:2] == [b"200"]:
                return [int(word) for word in answer.split(b"\r\n\r\n", 1)[1].split()]
        except ConnectionError:
            pass
        time.sleep(0.02)
    raise AssertionError(f"no answer to {path}")

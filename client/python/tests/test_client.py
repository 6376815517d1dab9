"""Tests the client's calls, with a real daemon."""

import datetime
import errno
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
from array import array
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import List

import leafd
import pytest
from conftest import Host, check_unique
from leafd import _errors


def test_ids_of_every_form_are_unique(host: Host) -> None:
    with host.client() as client:
        ids = [client.next_id("orders") for _ in range(1000)]
        ids += islice(client.ids("orders"), 1000)
        ids += [client.next_id_direct("orders") for _ in range(100)]
        ids += client.next_ids("orders", 1000)
        ids += client.next_ids_array("orders", 1000)
        buffer = array("q", [0] * 500)
        client.next_ids_into("orders", memoryview(buffer)[100:])
        assert list(buffer[:100]) == [0] * 100
        ids += buffer[100:]
        held = client.held_id("orders")
        ids += [] if held is None else [held]
        assert client.next_ids("orders", 0) == []
        # This is more than one request may draw.
        ids += client.next_ids_array("orders", 1_500_000)
    check_unique(ids)


def test_direct_ids_ascend(host: Host) -> None:
    client = host.client(direct=True)
    ids = [client.next_id("orders") for _ in range(300)]
    assert ids == sorted(ids)
    check_unique(ids, 300)


def test_buffers_that_hold_no_ids_are_refused(host: Host) -> None:
    client = host.client()
    for buffer in (bytes(16), bytearray(16), array("d", [0, 0]), array("I", [0]), memoryview(array("Q", [0] * 9))[::2]):
        with pytest.raises(leafd.InvalidArgumentError):
            client.next_ids_into("orders", buffer)
    with pytest.raises(TypeError):
        client.next_ids_into("orders", 5)
    with pytest.raises(leafd.InvalidArgumentError):
        client.next_ids("orders", -1)


def test_threads_share_a_client(host: Host) -> None:
    client = host.client()

    def draw(thread: int) -> List[int]:
        ids = [client.next_id("orders") for _ in range(5000)]
        return ids + [client.next_id_direct("orders") for _ in range(50)] + client.next_ids("orders", 50)

    with ThreadPoolExecutor(8) as pool:
        check_unique((id for ids in pool.map(draw, range(8)) for id in ids), 8 * 5100)


def test_other_threads_run_while_one_waits(host: Host) -> None:
    client = host.client(timeout=5.0).connect()
    host.pause()
    done = threading.Event()

    def wait() -> None:
        with pytest.raises(leafd.TimeoutError):
            client.next_id("orders", timeout=0.5)
        done.set()

    waiter = threading.Thread(target=wait)
    waiter.start()
    turns = 0
    while not done.is_set():
        turns += 1
    waiter.join()
    # If the interpreter's lock were held, the loop would have run only before and after the wait.
    assert turns > 10_000
    host.resume()
    assert client.next_id("orders") > 0


def test_a_closed_client_says_so(host: Host) -> None:
    with host.client() as client:
        client.next_id("orders")
    for call in (
        lambda: client.next_id("orders"),
        lambda: client.next_id_direct("orders"),
        lambda: client.next_ids("orders", 1),
        client.connect,
        client.layout,
    ):
        with pytest.raises(leafd.Error, match="closed"):
            call()
    client.close()
    assert "closed" in repr(client)


def test_close_amid_calls_of_other_threads_breaks_nothing(host: Host) -> None:
    for _ in range(20):
        client = host.client()
        ids: List[int] = []

        def draw(client: leafd.Client = client, ids: List[int] = ids) -> None:
            try:
                while True:
                    ids.append(client.next_id("orders"))
                    ids.append(client.next_id_direct("orders"))
            except ValueError as error:
                assert "closed" in str(error)

        threads = [threading.Thread(target=draw) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.01)
        client.close()
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive()
        check_unique(ids)


def test_clients_can_be_pickled(host: Host) -> None:
    client = host.client(direct=True)
    ids = [client.next_id("orders")]
    copy = pickle.loads(pickle.dumps(client))
    ids += [copy.next_id("orders"), client.next_id("orders")]
    assert ids == sorted(ids)
    check_unique(ids, 3)


def test_snowflake_ids_are_taken_apart(host: Host) -> None:
    client = host.client()
    before = time.time() - 60
    layout = client.layout()
    assert layout == leafd.LEAF
    decoded = leafd.decode(client.next_id("snowflake"), layout)
    assert decoded.worker == 17
    assert before < decoded.time.timestamp() < before + 120
    assert leafd.decode((1000 << 22) | (17 << 12) | 5) == (1000, 17, 5, 1_288_834_975_657)
    for id in (0, -1, 1 << 63):
        with pytest.raises(leafd.InvalidArgumentError):
            leafd.decode(id)
    for layout in (leafd.Layout(0, 1, 1, 1, 0), leafd.Layout(300, 1, 1, 1, 0), leafd.Layout(60, 3, 3, 1, 0)):
        with pytest.raises(leafd.InvalidArgumentError):
            leafd.decode(1, layout)
    with pytest.raises(leafd.InvalidArgumentError, match="snowflake"):
        client.layout("other")


def test_failures_are_typed(host: Host) -> None:
    client = host.client()
    with pytest.raises(leafd.UnknownTagError, match="leafctl tag create") as caught:
        client.next_id("nosuch")
    assert isinstance(caught.value, LookupError)
    assert caught.value.status is leafd.Status.TAG_UNKNOWN
    assert (caught.value.retryable, caught.value.retry_after) == (False, None)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (type(copy), str(copy)) == (leafd.UnknownTagError, str(caught.value))
    for tag in ("", "a\nb", "x" * 129, "a\0b", "\ud800"):
        with pytest.raises(leafd.InvalidArgumentError):
            client.next_id(tag)
        with pytest.raises(ValueError):
            client.next_id_direct(tag)
    with pytest.raises(TypeError):
        client.next_id(5)  # type: ignore[arg-type]
    for timeout in (-1, float("nan")):
        with pytest.raises(leafd.InvalidArgumentError):
            client.next_id_direct("orders", timeout=timeout)
    with pytest.raises(leafd.InvalidArgumentError):
        leafd.Client("a\0b")
    with pytest.raises(leafd.InvalidArgumentError):
        leafd.Client("")
    assert client.next_id_direct("orders", timeout=float("inf")) > 0


def test_arguments_that_can_not_be_are_told_in_words(host: Host) -> None:
    client = host.client()
    for count in (-1, 2**70, 1.5, "5"):
        with pytest.raises(leafd.InvalidArgumentError, match="a count of ids"):
            client.next_ids("orders", count)  # type: ignore[arg-type]
    for timeout in (-1, "1", float("nan")):
        with pytest.raises(leafd.InvalidArgumentError, match="a timeout is a number of seconds"):
            client.next_id_direct("orders", timeout=timeout)  # type: ignore[arg-type]
        with pytest.raises(leafd.InvalidArgumentError, match="a wait is a number of seconds"):
            leafd.Client(wait=timeout)  # type: ignore[arg-type]
    for settings in ({"timeout": None}, {"timeout": "1"}):
        with pytest.raises(leafd.InvalidArgumentError, match="a timeout is a number of seconds"):
            leafd.Client(**settings)
    with pytest.raises(leafd.InvalidArgumentError, match="a moment is a datetime"):
        leafd.first_id_at("2026-01-01")  # type: ignore[arg-type]
    with pytest.raises(leafd.InvalidArgumentError, match="is not an id"):
        leafd.decode("5")  # type: ignore[arg-type]


def test_builtin_exceptions_and_error_numbers_fit() -> None:
    for kind, builtin, number in (
        (leafd.DeniedError, PermissionError, errno.EACCES),
        (leafd.ConnectDeniedError, PermissionError, None),
        (leafd.ConnectDeniedError, ConnectionError, None),
        (leafd.ConnectDeniedError, leafd.ConnectError, None),
        (leafd.ConnectError, ConnectionError, None),
        (leafd.TimeoutError, TimeoutError, errno.ETIMEDOUT),
        (leafd.TimeoutError, TimeoutError, errno.ETIMEDOUT),
        (leafd.UnknownTagError, LookupError, None),
    ):
        error = kind("why")
        assert isinstance(error, builtin) and error.errno == number
        assert str(error) == "why" and (not isinstance(error, OSError) or error.strerror == "why")
        given = pickle.loads(pickle.dumps(kind("why", errno=errno.ENOENT)))
        assert (type(given), given.errno, str(given)) == (kind, errno.ENOENT, "why")


def test_names_are_shown_as_they_are_imported(host: Host) -> None:
    for name in leafd.__all__:
        public = getattr(leafd, name)
        if isinstance(public, type):
            assert f"{public.__module__}.{public.__qualname__}" == f"leafd.{name}"
    with pytest.raises(leafd.UnknownTagError) as caught:
        host.client().next_id("nosuch")
    assert traceback.format_exception_only(caught.type, caught.value)[0].startswith("leafd.UnknownTagError: leafd answered")
    assert repr(host.client()) == f"<leafd.Client socket={host.socket!r}>"
    assert repr(leafd.AsyncClient(host.socket)) == f"<leafd.AsyncClient socket={host.socket!r}>"


def test_the_socket_in_effect_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAFD_SOCKET", "/x/ä.sock")
    client = leafd.Client()
    monkeypatch.setenv("LEAFD_SOCKET", "/elsewhere")
    assert client.socket == "/x/ä.sock" and repr(client) == "<leafd.Client socket='/x/ä.sock'>"
    client.close()
    assert "closed" in repr(client)


def test_moments_are_bounds_of_ids(host: Host) -> None:
    utc = datetime.timezone.utc
    begin = datetime.datetime.now(utc)
    ids = [host.client().next_id_direct("snowflake") for _ in range(50)]
    # A static worker without a journal begins some seconds ahead of the clock.
    end = datetime.datetime.now(utc) + datetime.timedelta(seconds=10)
    assert all(leafd.first_id_at(begin) <= id < leafd.first_id_at(end) for id in ids)
    moment = datetime.datetime(2026, 3, 29, 1, 2, 3, 456_999, utc)
    id = leafd.first_id_at(moment)
    parts = leafd.decode(id)
    assert (parts.worker, parts.sequence) == (0, 0)
    assert parts.time == moment.replace(microsecond=456_000)
    # The same moment, in another time zone and without a time zone.
    elsewhere = moment.astimezone(datetime.timezone(datetime.timedelta(hours=5, minutes=45)))
    assert leafd.first_id_at(elsewhere) == id == leafd.first_id_at(moment.astimezone().replace(tzinfo=None))
    assert parts.local_time == parts.time and parts.local_time.utcoffset() is not None
    seconds = leafd.Layout(31, 4, 18, 1000, 1_600_000_000_000)
    assert leafd.first_id_at(moment, seconds) == (int(moment.timestamp()) - 1_600_000_000) << 22
    first = datetime.datetime(2010, 11, 4, 1, 42, 54, 657_000, utc)
    assert leafd.first_id_at(first) == 0
    for none in (first - datetime.timedelta(microseconds=1), datetime.datetime(2200, 1, 1, tzinfo=utc)):
        with pytest.raises(leafd.InvalidArgumentError, match="the layout has no ids at .* begin at 2010-.* and end before 2080-"):
            leafd.first_id_at(none)


def run_module(host: Host, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Runs `python -m leafd`."""
    command = [sys.executable, "-m", "leafd", *arguments]
    return subprocess.run(command, env=host.environment(), capture_output=True, text=True)


def test_it_is_a_program(host: Host) -> None:
    ids = [int(id) for id in run_module(host, "next", "orders").stdout.split()]
    ids += [int(id) for id in run_module(host, "next", "orders", "-n", "5").stdout.split()]
    ids += [int(id) for id in run_module(host, "next", "orders", "-n", "5", "--direct").stdout.split()]
    assert ids == sorted(ids)
    check_unique(ids, 11)
    for extra in ([], ["--layout", "snowflake"]):
        assert "worker    17\n" in run_module(host, "decode", str((1000 << 22) | (17 << 12)), *extra).stdout
    refused = run_module(host, "next", "nosuch")
    assert (refused.returncode, refused.stdout) == (1, "") and "leafctl tag create" in refused.stderr
    wrong = (["next"], ["next", "orders", "-n", "0"], ["next", ""], ["decode", "-1"], ["decode", "5", "--layout", "nosuch"])
    for arguments in wrong:
        refused = run_module(host, *arguments)
        assert (refused.returncode, refused.stdout) == (2, "") and refused.stderr, arguments


def test_the_program_ends_without_a_word_by_ctrl_c_or_when_nobody_reads_on(host: Host) -> None:
    command = [sys.executable, "-m", "leafd", "next", "orders", "-n", "1000000000"]
    pipe = subprocess.PIPE
    for how in (signal.SIGINT, signal.SIGPIPE):
        process = subprocess.Popen(command, env=host.environment(), stdout=pipe, stderr=pipe, text=True)
        assert process.stdout is not None and process.stderr is not None
        assert int(process.stdout.readline()) > 0
        if how == signal.SIGINT:
            process.send_signal(how)
            process.wait(30)
        process.stdout.close()
        said = process.stderr.read()
        assert (process.wait(30), said) == (-how, "")


def test_every_status_has_an_exception() -> None:
    assert set(_errors.BY_STATUS) == set(leafd.Status) - {leafd.Status.OK}
    for status, kind in _errors.BY_STATUS.items():
        assert kind.__doc__
        assert getattr(leafd, kind.__name__) is kind
        assert kind.__name__.endswith("Error")
        assert str(kind("why")) == "why"
        made = _errors.error_of(status, "why", retryable=False)
        assert type(made) is kind and made.status is status
        assert made.is_timeout is isinstance(made, TimeoutError)
    # An exception that a program creates itself has a status of its class.
    for kind in set(_errors.BY_STATUS.values()):
        assert _errors.BY_STATUS[kind("why").status] is kind
    assert _errors.error_of(999, "why", retryable=False).status is leafd.Status.INTERNAL


def test_info_tells_whether_the_daemon_is_ready(host: Host) -> None:
    info = host.client().info()
    assert info.segments_ready and info.snowflake_ready
    assert re.fullmatch(r"\d+\.\d+\.\d+(-[\w.]+)?", info.release)
    assert host.daemon is not None and info.pid == host.daemon.pid
    with pytest.raises(leafd.ConnectError):
        leafd.Client("/nowhere/at/all").info(timeout=0.1)


def test_signals_break_no_call(host: Host) -> None:
    client = host.client()
    seen = []
    old = signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        ids = [client.next_id_direct("orders") for _ in range(500)]
        ids += client.next_ids("orders", 100_000)
        ids += [host.client().next_id("orders") for _ in range(50)]
        host.pause()
        with pytest.raises(leafd.TimeoutError):
            client.next_id_direct("orders", timeout=0.2)
        host.resume()
        os.kill(os.getpid(), signal.SIGALRM)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    check_unique(ids, 100_550)
    assert len(seen) > 10

"""The calls of the client, against a real daemon."""

import asyncio
import os
import pickle
import signal
import threading
import time
from array import array
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import AsyncIterator, List

import leafd
import pytest
from conftest import Host, check_unique
from leafd import _errors


def test_ids_of_every_form_are_unique(host: Host) -> None:
    with host.client() as client:
        ids = [client.next_id("orders") for _ in range(1000)]
        ids += islice(client.ids("orders"), 1000)
        ids += [client.next_id_unleased("orders") for _ in range(100)]
        ids += client.next_ids("orders", 1000)
        ids += client.next_ids_array("orders", 1000)
        buffer = array("q", [0] * 500)
        client.next_ids_into("orders", memoryview(buffer)[100:])
        assert list(buffer[:100]) == [0] * 100
        ids += buffer[100:]
        held = client.held_id("orders")
        ids += [] if held is None else [held]
        assert client.next_ids("orders", 0) == []
        # More than one request may ask for.
        ids += client.next_ids_array("orders", 1_500_000)
    check_unique(ids)


def test_unleased_ids_ascend(host: Host) -> None:
    client = host.client(leased=False)
    ids = [client.next_id("orders") for _ in range(300)]
    assert ids == sorted(ids)
    check_unique(ids, 300)


def test_buffers_that_hold_no_ids_are_refused(host: Host) -> None:
    client = host.client()
    for buffer in (bytes(16), bytearray(16), array("d", [0, 0]), array("I", [0]), memoryview(array("Q", [0] * 9))[::2]):
        with pytest.raises(leafd.InvalidArgument):
            client.next_ids_into("orders", buffer)
    with pytest.raises(TypeError):
        client.next_ids_into("orders", 5)
    with pytest.raises(leafd.InvalidArgument):
        client.next_ids("orders", -1)


def test_threads_share_a_client(host: Host) -> None:
    client = host.client()

    def draw(thread: int) -> List[int]:
        ids = [client.next_id("orders") for _ in range(5000)]
        return ids + [client.next_id_unleased("orders") for _ in range(50)] + client.next_ids("orders", 50)

    with ThreadPoolExecutor(8) as pool:
        check_unique((id for ids in pool.map(draw, range(8)) for id in ids), 8 * 5100)


def test_other_threads_run_while_one_waits(host: Host) -> None:
    client = host.client(timeout=5.0).connect()
    host.pause()
    done = threading.Event()

    def wait() -> None:
        with pytest.raises(leafd.TimedOut):
            client.next_id("orders", timeout=0.5)
        done.set()

    waiter = threading.Thread(target=wait)
    waiter.start()
    turns = 0
    while not done.is_set():
        turns += 1
    waiter.join()
    # Were the interpreter's lock held, the loop would have had its turns before and after the wait only.
    assert turns > 10_000
    host.resume()
    assert client.next_id("orders") > 0


def test_a_closed_client_says_so(host: Host) -> None:
    with host.client() as client:
        client.next_id("orders")
    for call in (
        lambda: client.next_id("orders"),
        lambda: client.next_id_unleased("orders"),
        lambda: client.next_ids("orders", 1),
        client.connect,
        client.layout,
    ):
        with pytest.raises(ValueError, match="closed"):
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
                    ids.append(client.next_id_unleased("orders"))
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
    client = host.client(leased=False)
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
        with pytest.raises(leafd.InvalidArgument):
            leafd.decode(id)
    for layout in (leafd.Layout(0, 1, 1, 1, 0), leafd.Layout(300, 1, 1, 1, 0), leafd.Layout(60, 3, 3, 1, 0)):
        with pytest.raises(leafd.InvalidArgument):
            leafd.decode(1, layout)
    with pytest.raises(leafd.InvalidArgument, match="snowflake"):
        client.layout("other")


def test_failures_are_typed(host: Host) -> None:
    client = host.client()
    with pytest.raises(leafd.TagUnknown, match="leafctl tag create") as caught:
        client.next_id("nosuch")
    assert isinstance(caught.value, LookupError)
    assert caught.value.status is leafd.Status.TAG_UNKNOWN
    assert (caught.value.retryable, caught.value.retry_after) == (False, None)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (type(copy), str(copy)) == (leafd.TagUnknown, str(caught.value))
    for tag in ("", "a\nb", "x" * 129, "a\0b", "\ud800"):
        with pytest.raises(leafd.InvalidArgument):
            client.next_id(tag)
        with pytest.raises(ValueError):
            client.next_id_unleased(tag)
    with pytest.raises(TypeError):
        client.next_id(5)  # type: ignore[arg-type]
    for timeout in (-1, float("nan")):
        with pytest.raises(leafd.InvalidArgument):
            client.next_id_unleased("orders", timeout=timeout)
    with pytest.raises(leafd.InvalidArgument):
        leafd.Client("a\0b")
    with pytest.raises(leafd.InvalidArgument):
        leafd.Client("")
    assert client.next_id_unleased("orders", timeout=float("inf")) > 0


def test_every_status_has_an_exception() -> None:
    assert set(_errors.BY_STATUS) == set(leafd.Status) - {leafd.Status.OK}
    for status, kind in _errors.BY_STATUS.items():
        assert kind.status == status
        assert kind.__doc__
        assert getattr(leafd, kind.__name__) is kind
        assert str(kind("why")) == "why"


def test_asyncio_goes_on_while_a_call_waits(host: Host) -> None:
    async def main() -> List[int]:
        async with leafd.AsyncClient(host.client()) as client:
            await client.connect()
            ids = [await client.next_id("orders") for _ in range(500)]
            ids += await client.next_ids("orders", 500)
            ids += [await client.next_id_unleased("orders")]
            ids += await first(500, client.ids("orders"))
            ids += await asyncio.gather(*(client.next_id("orders") for _ in range(500)))
            assert await client.layout() == leafd.LEAF
            host.pause()
            waiting = asyncio.ensure_future(client.next_ids("orders", 5, timeout=5))
            turns = 0
            end = time.monotonic() + 0.3
            while time.monotonic() < end:
                await asyncio.sleep(0)
                turns += 1
            assert turns > 100 and not waiting.done()
            host.resume()
            return ids + await waiting

    check_unique(asyncio.run(main()), 2006)


async def first(count: int, ids: AsyncIterator[int]) -> List[int]:
    """So many of them."""
    return [await ids.__anext__() for _ in range(count)]


def test_signals_interrupt_no_call(host: Host) -> None:
    client = host.client()
    seen = []
    old = signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        ids = [client.next_id_unleased("orders") for _ in range(500)]
        ids += client.next_ids("orders", 100_000)
        ids += [host.client().next_id("orders") for _ in range(50)]
        host.pause()
        with pytest.raises(leafd.TimedOut):
            client.next_id_unleased("orders", timeout=0.2)
        host.resume()
        os.kill(os.getpid(), signal.SIGALRM)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    check_unique(ids, 100_550)
    assert len(seen) > 10

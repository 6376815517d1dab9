"""Tests the client for asyncio, with real and fake daemons."""

import asyncio
import gc
import os
import signal
import struct
import threading
import time
from typing import Any, AsyncIterator, Awaitable, Callable, List

import leafd
import pytest
from conftest import Host, check_unique
from test_faults import Answer, Stranger, played, refusal, reply
from test_forks import draw, in_child

TASKS = 60

pytestmark = pytest.mark.usefixtures("every_loop")


def client_of(host: Host, **settings: Any) -> leafd.AsyncClient:
    """Returns a client of a host's daemon."""
    return leafd.AsyncClient(host.socket, **{"timeout": 10.0, **settings})


async def draw_async(client: leafd.AsyncClient) -> List[int]:
    """Draws ids with every kind of call."""
    ids = [await client.next_id("orders") for _ in range(150)]
    ids += [await client.next_id_direct("orders") for _ in range(5)]
    return ids + await client.next_ids("orders", 10)


async def first(count: int, ids: AsyncIterator[int]) -> List[int]:
    """Returns the first `count` ids."""
    return [await ids.__anext__() for _ in range(count)]


def test_ids_of_every_form_are_unique_while_the_loop_goes_on(host: Host) -> None:
    async def main() -> List[int]:
        async with client_of(host) as client:
            assert await client.connect() is client
            ids = await draw_async(client)
            ids += await first(500, client.ids("orders"))
            ids += await asyncio.gather(*(client.next_id("orders") for _ in range(500)))
            ids += await asyncio.gather(*(client.next_id_direct("orders") for _ in range(500)))
            assert await client.layout() == leafd.LEAF
            assert await client.next_ids("orders", 0) == []
            assert leafd.decode(await client.next_id("snowflake")).worker == 17
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

    check_unique(asyncio.run(main()), 165 + 1500 + 5)


def test_info_tells_whether_the_daemon_is_ready(host: Host) -> None:
    async def main() -> leafd.Info:
        async with client_of(host) as client:
            return await client.info()

    info = asyncio.run(main())
    assert info == host.client().info() and info.segments_ready and info.snowflake_ready


def test_the_socket_can_be_named_by_keyword(host: Host) -> None:
    async def main() -> List[int]:
        client = leafd.AsyncClient(socket=host.socket, timeout=10.0)
        ids = [await client.next_id("orders")]
        await client.aclose()
        with pytest.raises(leafd.InvalidArgumentError):
            await client.next_id("orders")
        return ids

    check_unique(asyncio.run(main()), 1)
    with pytest.raises(leafd.InvalidArgumentError, match="both"):
        leafd.AsyncClient(host.socket, socket=host.socket)
    with pytest.raises(TypeError, match="timout"):
        leafd.AsyncClient(host.socket, timout=3)  # type: ignore[call-arg]


def test_a_large_batch_leaves_the_loop_its_turns(host: Host) -> None:
    async def main() -> List[int]:
        async with client_of(host) as client:
            batch = asyncio.ensure_future(client.next_ids("orders", 2_500_000))
            turns = 0
            while not batch.done():
                await asyncio.sleep(0)
                turns += 1
            # If each answer were converted in one step, the loop would have run only three times.
            assert turns > 100
            return await batch

    check_unique(asyncio.run(main()), 2_500_000)


def test_direct_ids_ascend(host: Host) -> None:
    async def main() -> List[int]:
        async with client_of(host, direct=True) as client:
            return [await client.next_id("orders") for _ in range(300)]

    ids = asyncio.run(main())
    assert ids == sorted(ids)
    check_unique(ids, 300)


def test_runs_are_shared_with_the_client_that_was_given(host: Host) -> None:
    client = host.client()
    ids: List[int] = []
    stop = threading.Event()

    def thread() -> None:
        while not stop.is_set():
            ids.extend(client.next_id("orders") for _ in range(50))

    async def main() -> List[int]:
        both = leafd.AsyncClient(client)
        drawn = [id for _ in range(20) for id in await draw_async(both)]
        both.close()
        with pytest.raises(leafd.Error, match="closed"):
            await both.next_id("orders")
        return drawn

    threads = [threading.Thread(target=thread) for _ in range(2)]
    for each in threads:
        each.start()
    drawn = asyncio.run(main()) + asyncio.run(main())
    stop.set()
    for each in threads:
        each.join()
    assert client.next_id("orders") > 0
    check_unique(drawn + ids)
    with pytest.raises(leafd.InvalidArgumentError, match="timeout"):
        leafd.AsyncClient(client, timeout=5)


def test_timeouts_count_from_the_call(host: Host) -> None:
    async def main() -> None:
        async with client_of(host) as client:
            await client.connect()
            host.pause()
            calls: List[Awaitable[object]] = [client.next_id("orders", timeout=0.5) for _ in range(TASKS)]
            calls += [client.next_id_direct("orders", timeout=0.5) for _ in range(TASKS)]
            begun = time.monotonic()
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            took = time.monotonic() - begun
            assert all(isinstance(outcome, leafd.TimeoutError) for outcome in outcomes), outcomes
            # One after another, or a few at a time, they would take many times as long.
            assert 0.4 < took < 5, took
            host.resume()
            check_unique(await draw_async(client), 165)

    asyncio.run(main())


def test_a_look_up_of_a_name_waits_behind_no_call(host: Host) -> None:
    async def main() -> None:
        async with client_of(host) as client:
            await client.connect()
            host.pause()
            calls = [asyncio.ensure_future(client.next_id_direct("orders", timeout=5)) for _ in range(TASKS)]
            await asyncio.sleep(0.05)
            await asyncio.get_running_loop().getaddrinfo("localhost", 80)
            assert not any(call.done() for call in calls)
            host.resume()
            check_unique(await asyncio.gather(*calls), TASKS)

    asyncio.run(main())


def test_cancelling_frees_everything(host: Host) -> None:
    async def main() -> None:
        async with client_of(host) as client:
            await client.connect()
            [link] = client._links.values()
            host.pause()
            for _ in range(5):
                calls = [asyncio.ensure_future(client.next_id("orders")) for _ in range(200)]
                calls += [asyncio.ensure_future(client.next_id_direct("orders")) for _ in range(200)]
                await asyncio.sleep(0.01)
                for call in calls:
                    call.cancel()
                outcomes = await asyncio.gather(*calls, return_exceptions=True)
                assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
            assert not link.fetches and not link.waiting
            host.resume()
            check_unique(await draw_async(client), 165)
            # Requests whose replies came too late are gone as well.
            assert link.connection is not None and not link.connection.requests
            assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())
    gc.collect()


def test_a_daemon_that_comes_and_goes_is_not_noticed(host: Host) -> None:
    async def main() -> List[int]:
        async with client_of(host) as client:
            ids: List[int] = []
            turns = [0] * 5
            stop = asyncio.Event()

            async def task(number: int) -> None:
                while not stop.is_set():
                    ids.extend([await client.next_id_direct("orders"), *await client.next_ids("orders", 5)])
                    ids.extend([await client.next_id("orders") for _ in range(50)])
                    turns[number] += 1
                    await asyncio.sleep(0.001)

            async def two_turns_of_each() -> None:
                before = list(turns)
                while any(now < then + 2 for now, then in zip(turns, before)):
                    await asyncio.sleep(0.01)

            tasks = [asyncio.ensure_future(task(number)) for number in range(5)]
            for how in (signal.SIGTERM, signal.SIGKILL) * 2:
                # Requests are retried only once, so the pending one must be answered first.
                await asyncio.wait_for(two_turns_of_each(), 30)
                await asyncio.to_thread(host.stop, how)
                await asyncio.sleep(0.1)
                await asyncio.to_thread(host.start)
            await asyncio.wait_for(two_turns_of_each(), 30)
            stop.set()
            await asyncio.gather(*tasks)
            return ids

    ids = asyncio.run(main())
    check_unique(ids)
    assert len(ids) > 500


@pytest.mark.parametrize(("timeout", "wait"), [(2.0, 30.0), (30.0, 0.1)])
def test_it_waits_for_a_daemon_that_comes_later(idle_host: Host, timeout: float, wait: float) -> None:
    async def main() -> List[int]:
        calls: List[Callable[[leafd.AsyncClient], Awaitable[object]]] = [
            lambda client: client.connect(),
            lambda client: client.next_id("orders"),
            lambda client: client.next_ids("orders", 5),
        ]
        for call in calls:
            async with client_of(idle_host) as client:
                with pytest.raises(leafd.ConnectError, match="is the daemon running") as caught:
                    await call(client)
                assert isinstance(caught.value, ConnectionError) and caught.value.retryable
        async with client_of(idle_host, timeout=timeout, wait=wait) as client:
            with pytest.raises(leafd.ConnectError):
                await client.next_id("snowflake", timeout=0.1)
            waiting = [asyncio.ensure_future(client.next_id("snowflake")) for _ in range(20)]
            waiting += [asyncio.ensure_future(client.next_id_direct("snowflake")) for _ in range(20)]
            await asyncio.sleep(2.5)
            await asyncio.to_thread(idle_host.start)
            return await asyncio.gather(*waiting)

    check_unique(asyncio.run(main()), 40)


def test_the_whole_time_is_waited(idle_host: Host) -> None:
    async def main() -> None:
        async with client_of(idle_host, timeout=0.01, wait=0.3) as client:
            begun = time.monotonic()
            with pytest.raises(leafd.ConnectError):
                await client.next_id("orders")
            # uvloop counts whole milliseconds, from the start of the loop's iteration.
            assert time.monotonic() - begun >= 0.28

    asyncio.run(main())


def test_a_first_call_waits_where_a_daemon_restarts(host: Host) -> None:
    async def main(how: int) -> List[int]:
        host.stop(how)
        async with client_of(host) as client:
            call = asyncio.ensure_future(client.next_ids("orders", 5))
            await asyncio.sleep(0.2)
            await asyncio.to_thread(host.start)
            return await call

    check_unique(asyncio.run(main(signal.SIGTERM)) + asyncio.run(main(signal.SIGKILL)), 10)


def test_a_child_makes_its_own_way(host: Host) -> None:
    client = leafd.AsyncClient(host.socket, timeout=10.0)
    ids = asyncio.run(draw_async(client))

    async def parent() -> List[int]:
        drawn = [await client.next_id("orders") for _ in range(7)]
        wait = in_child(child)
        drawn += await draw_async(client)
        return drawn + await asyncio.to_thread(wait)

    def child() -> List[int]:
        # Clear the state that the parent's loop left in this thread.
        asyncio._set_running_loop(None)
        return draw(client._client) + asyncio.run(draw_async(client))

    for _ in range(5):
        ids += asyncio.run(parent())
    check_unique(ids, 165 + 5 * (7 + 165 + 330))


def test_loops_of_many_threads_share_a_client(host: Host) -> None:
    client = leafd.AsyncClient(host.socket, timeout=10.0)
    ids: List[int] = []
    threads = [threading.Thread(target=lambda: ids.extend(asyncio.run(draw_async(client)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check_unique(ids, 8 * 165)


def test_failures_are_typed_and_worded_as_the_other_clients(host: Host) -> None:
    blocking = host.client()

    async def main() -> None:
        async with client_of(host) as client:
            for tag in ("nosuch", "", "a\nb", "x" * 129, "a\0b", "\ud800"):
                with pytest.raises(leafd.Error) as caught:
                    await client.next_id(tag)
                with pytest.raises(type(caught.value)) as again:
                    await client.next_ids(tag, 5)
                with pytest.raises(type(caught.value)) as expected:
                    blocking.next_id(tag)
                assert str(caught.value) == str(again.value) == str(expected.value)
                assert caught.value.retryable is expected.value.retryable is False
            for timeout in (-1, float("nan"), "1"):
                with pytest.raises(leafd.InvalidArgumentError):
                    await client.next_id_direct("orders", timeout=timeout)  # type: ignore[arg-type]
            with pytest.raises(leafd.InvalidArgumentError):
                await client.next_ids("orders", -1)
            with pytest.raises(leafd.InvalidArgumentError, match="snowflake"):
                await client.layout("other")
        host.stop()
        os.unlink(host.socket + ".lock")
        async with client_of(host) as client:
            with pytest.raises(leafd.ConnectError) as caught:
                await client.connect()
            with pytest.raises(leafd.ConnectError) as expected:
                host.client().connect()
            assert str(caught.value) == str(expected.value)
            assert caught.value.errno == expected.value.errno

    asyncio.run(main())


@pytest.fixture
def path(idle_host: Host) -> str:
    """The path of a socket on which no daemon listens."""
    return idle_host.socket


def outcome_of(
    path: str, answer: Answer, call: Callable[[leafd.AsyncClient], Awaitable[object]], **settings: Any
) -> object:
    """Returns the outcome of a call to a fake daemon."""
    Stranger(path, answer)

    async def main() -> object:
        async with leafd.AsyncClient(path, timeout=5.0, **settings) as client:
            return await call(client)

    return asyncio.run(main())


BODIES = [
    b"",
    struct.pack("<IHHQII", 0, 1, 0, 0, 1, 1),
    struct.pack("<IHHQII", 0, 1, 0, 1 << 63, 1, 1),
    struct.pack("<IHHQII", 0, 1, 0, 5, 0, 1),
    struct.pack("<IHHQII", 0, 1, 0, 5, 1, 0),
    struct.pack("<IHHQII", 0, 1, 0, 5, 100, 1),
    struct.pack("<IHHQII", 0, 2, 0, 5, 1, 1),
    struct.pack("<IHH", 0, 0, 0),
    struct.pack("<IHHQII", 0, 1, 0, (1 << 63) - 1, 2, 1),
]


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("form", ["next_id", "next_id_direct", "next_ids"])
def test_an_answer_that_is_none_gives_no_id(path: str, body: bytes, form: str) -> None:
    calls = {
        "next_id": lambda client: client.next_id("orders"),
        "next_id_direct": lambda client: client.next_id_direct("orders"),
        "next_ids": lambda client: client.next_ids("orders", 3),
    }
    with pytest.raises(leafd.ProtocolError):
        outcome_of(path, lambda opcode, request, _: reply(opcode, 0, request, body), calls[form])


FRAMES = {
    "another request's": lambda opcode, request: reply(opcode, 0, request + 1, BODIES[3]),
    "opcode differs": lambda opcode, request: reply(opcode + 1, 0, request, BODIES[3]),
    "too long": lambda opcode, request: struct.pack("<IBBHI", 2_000_000, opcode | 128, 0, 0, request),
    "too short": lambda opcode, request: struct.pack("<IBBHI", 3, opcode | 128, 0, 0, request),
}


@pytest.mark.parametrize("frame", FRAMES)
def test_a_frame_that_is_none_ends_the_connection(path: str, frame: str) -> None:
    with pytest.raises(leafd.ProtocolError):
        outcome_of(path, lambda opcode, request, _: FRAMES[frame](opcode, request), lambda client: client.next_id("orders"))


def test_answers_come_in_pieces_and_in_any_order(path: str) -> None:
    held: List[bytes] = []

    def answer(opcode: int, request: int, body: bytes) -> bytes:
        held.append(reply(opcode, 0, request, struct.pack("<IHHQII", 0, 1, 0, 100 + request, 1, 1), flags=0xFE))
        return b"".join(reversed(held)) if len(held) == 10 else b""

    async def call(client: leafd.AsyncClient) -> List[int]:
        return list(await asyncio.gather(*(client.next_id_direct("orders") for _ in range(10))))

    assert outcome_of(path, answer, call) == list(range(101, 111))


def test_ids_that_may_not_be_held_are_not(path: str) -> None:
    count = 0

    def answer(opcode: int, request: int, body: bytes) -> bytes:
        nonlocal count
        count += 1
        return reply(opcode, 0, request, struct.pack("<IHHQII", 0, 1, 0, count, 1, 1))

    async def call(client: leafd.AsyncClient) -> List[int]:
        ids = [await client.next_id("orders") for _ in range(20)]
        return ids + await asyncio.gather(*(client.next_id("orders") for _ in range(20)))

    ids = outcome_of(path, answer, call)
    assert isinstance(ids, list)
    check_unique(ids, 40)
    assert count == 40


@pytest.mark.parametrize(("answers_after", "turn"), [(0.02, 0.0), (0.0, 0.02), (0.0, 0.005)])
def test_where_answers_are_late_calls_get_their_ids(path: str, answers_after: float, turn: float) -> None:
    """Answers arrive later than their ids may be held, because the daemon is slow, or the loop is busy in each
    iteration."""
    drawn = 0

    def answer(opcode: int, request: int, body: bytes) -> bytes:
        nonlocal drawn
        (count,) = struct.unpack_from("<I", body)
        time.sleep(answers_after)
        drawn += count
        return reply(opcode, 0, request, struct.pack("<IHHQII", 8, 1, 0, 1 + drawn - count, count, 1))

    async def call(client: leafd.AsyncClient) -> List[int]:
        async def keep_busy() -> None:
            while True:
                time.sleep(turn)
                await asyncio.sleep(0)

        async def draw() -> List[int]:
            return [await client.next_id("snowflake") for _ in range(4)]

        busy = asyncio.ensure_future(keep_busy())
        ids = [await client.next_id("snowflake")]
        ids += [id for some in await asyncio.gather(*(draw() for _ in range(6))) for id in some]
        busy.cancel()
        return ids

    ids = outcome_of(path, answer, call)
    assert isinstance(ids, list)
    check_unique(ids, 25)


def test_a_daemon_without_room_says_so_to_all(path: str) -> None:
    with pytest.raises(leafd.UnavailableError, match="no room") as caught:
        outcome_of(path, lambda *_: refusal(0, 21, 0, "no room"), lambda client: client.next_id("orders"))
    assert caught.value.retryable


def test_versions_are_agreed_on(path: str) -> None:
    info = struct.pack("<HHIIIII", 2, 3, 65536, 10**6, 1024, 60000, 1) + struct.pack("<H5sH", 5, b"9.0.0", 0)
    with pytest.raises(leafd.ProtocolError, match=r"9\.0\.0 chose protocol version 2"):
        outcome_of(path, lambda opcode, request, _: reply(opcode, 0, request, info), lambda client: client.connect())


def test_the_blocking_client_says_the_same_of_played_daemons(path: str) -> None:
    def answer(opcode: int, request: int, _: bytes) -> bytes:
        return refusal(opcode, 777, request, "a new reason")

    _, blocking = played(path, answer)
    with pytest.raises(leafd.InternalError) as told:
        blocking.next_id_direct("orders")
    expected = str(told.value)
    # The traceback's frames keep the connection open, and the fake daemon serves one at a time.
    del told

    async def main() -> None:
        with pytest.raises(leafd.InternalError, match="777.*a new reason") as caught:
            async with leafd.AsyncClient(path) as client:
                await client.next_id_direct("orders")
        assert str(caught.value) == expected

    blocking.close()
    asyncio.run(main())


def test_a_client_is_closed_after_its_loop(host: Host) -> None:
    client = client_of(host)
    check_unique([asyncio.run(client.next_id("orders")), asyncio.run(client.next_id_direct("orders"))], 2)
    client.close()
    with pytest.raises(leafd.InvalidArgumentError, match="closed"):
        asyncio.run(client.next_id("orders"))

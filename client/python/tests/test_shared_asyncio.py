"""Runs that processes of a user share in memory, drawn from by event loops."""

import asyncio
import os
import resource
import signal
import struct
import threading
import time
from pathlib import Path
from typing import Any, List

import leafd
import pytest
from conftest import Host, check_unique
from test_asyncio import outcome_of
from test_faults import refusal, reply
from test_forks import in_child

UNKNOWN_OPCODE = 2


@pytest.fixture
def sharing(idle_host: Host) -> Host:
    """A host where `orders` is shared, and `held` is not."""
    start(idle_host)
    idle_host.create("orders")
    idle_host.create("held")
    return idle_host


def start(host: Host) -> None:
    """Starts the daemon of such a host."""
    host.start(settings=[f'access=[{{tags = ["orders"], share_uids = [{os.getuid()}]}}]'])


def client_of(host: Host, **settings: Any) -> leafd.AsyncClient:
    """A client that shares."""
    return leafd.AsyncClient(host.socket, **{"shared": True, "timeout": 30.0, **settings})


async def draw_async(client: leafd.AsyncClient, count: int) -> List[int]:
    """So many ids, which ascend."""
    ids = [await client.next_id("orders") for _ in range(count)]
    assert ids == sorted(ids)
    return ids


def pages_open() -> int:
    """How many descriptors of shared memory this process has."""
    found = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            found += "memfd:leafd" in os.readlink(descriptor)
        except OSError:
            pass
    return found


def test_loops_clients_and_children_draw_in_one_order(sharing: Host) -> None:
    blocking = sharing.client(shared=True, timeout=30)

    async def main(client: leafd.AsyncClient) -> List[int]:
        ids: List[int] = []
        for _ in range(2_000):
            ids += [await client.next_id("orders"), blocking.next_id("orders")]
        assert ids == sorted(ids)
        drawn = await asyncio.gather(*(client.next_id("orders") for _ in range(500)))
        assert min(drawn) > ids[-1]
        ids += drawn
        of_child = await asyncio.to_thread(in_child(child))
        assert of_child[0] > max(ids)
        ids += of_child
        assert pages_open() == 0
        return ids + await draw_async(client, 100)

    def child() -> List[int]:
        asyncio._set_running_loop(None)
        return asyncio.run(draw_async(inherited, 3_000))

    inherited = client_of(sharing)
    ids = asyncio.run(main(inherited)) + asyncio.run(main(leafd.AsyncClient(blocking)))
    ids += asyncio.run(draw_async(inherited, 1_000))
    check_unique(ids, 2 * (4_000 + 500 + 3_000 + 100) + 1_000)


def test_loops_of_many_threads_share(sharing: Host) -> None:
    client = client_of(sharing)
    ids: List[int] = []
    threads = [threading.Thread(target=lambda: ids.extend(asyncio.run(draw_async(client, 5_000)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check_unique(ids, 20_000)


def test_what_is_not_shared_is_drawn_as_without(sharing: Host) -> None:
    async def main() -> List[int]:
        ids: List[int] = []
        for direct in (False, True):
            async with client_of(sharing, direct=direct) as client:
                ids += [await client.next_id("held") for _ in range(200)]
                ids += await asyncio.gather(*(client.next_id("held") for _ in range(200)))
                assert leafd.decode(await client.next_id("snowflake")).worker == 17
                with pytest.raises(leafd.TagUnknown):
                    await client.next_id("nosuch")
        return ids

    check_unique(asyncio.run(main()), 800)


def test_a_daemon_that_comes_and_goes_is_not_noticed(sharing: Host) -> None:
    async def main() -> List[int]:
        async with client_of(sharing) as client:
            ids: List[int] = []
            stop = asyncio.Event()

            async def task() -> None:
                last = 0
                while not stop.is_set():
                    for _ in range(50):
                        id = await client.next_id("orders")
                        assert id > last
                        last = id
                        ids.append(id)
                    await asyncio.sleep(0.001)

            tasks = [asyncio.ensure_future(task()) for _ in range(5)]
            for how in (signal.SIGTERM, signal.SIGKILL) * 2:
                await asyncio.sleep(0.2)
                await asyncio.to_thread(sharing.stop, how)
                await asyncio.to_thread(start, sharing)
            before = len(ids)
            while len(ids) < before + 500:
                await asyncio.sleep(0.01)
            stop.set()
            await asyncio.gather(*tasks)
            return ids

    check_unique(asyncio.run(main()))
    assert pages_open() == 0


def test_no_call_holds_up_the_loop_and_cancelling_frees_everything(sharing: Host) -> None:
    async def main() -> List[int]:
        async with client_of(sharing) as client:
            ids = await draw_async(client, 10)
            [link] = client._links.values()
            sharing.pause()
            # What was published may be drawn for another second.
            end = time.monotonic() + 30
            while time.monotonic() < end:
                try:
                    ids.append(await client.next_id("orders", timeout=0.1))
                except leafd.TimedOut:
                    break
            calls = [asyncio.ensure_future(client.next_id("orders")) for _ in range(200)]
            turns = 0
            while turns < 100:
                await asyncio.sleep(0)
                turns += 1
            assert not any(call.done() for call in calls)
            for call in calls[50:]:
                call.cancel()
            limited = [client.next_id("orders", timeout=0.2) for _ in range(50)]
            outcomes = await asyncio.gather(*calls[50:], *limited, return_exceptions=True)
            assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes[:150])
            assert all(isinstance(outcome, leafd.TimedOut) for outcome in outcomes[150:]), outcomes[150:]
            sharing.resume()
            ids += await asyncio.gather(*calls[:50])
            ids += await draw_async(client, 10)
            assert not link.waiting and pages_open() == 0
            while len(asyncio.all_tasks()) > 1:
                await asyncio.sleep(0.01)
            return ids

    check_unique(asyncio.run(main()))


def test_a_process_that_can_open_no_more_files_draws_as_without(sharing: Host) -> None:
    async def main() -> List[int]:
        client = client_of(sharing)
        first = await client.next_ids("orders", 1)
        # All numbers below the first that is free are taken.
        free = os.open("/dev/null", os.O_RDONLY)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        with pytest.raises(OSError):
            os.open("/dev/null", os.O_RDONLY)
        # What others draw by the same connection goes on.
        others = [client.next_id_direct("orders") for _ in range(100)]
        return first + await asyncio.gather(*others, *(client.next_id("orders") for _ in range(100)))

    check_unique(in_child(lambda: asyncio.run(main()))(), 201)


def test_a_client_that_is_closed_draws_no_more(sharing: Host) -> None:
    async def main() -> List[int]:
        client = client_of(sharing)
        ids = await draw_async(client, 10)
        client.close()
        with pytest.raises(leafd.InvalidArgument, match="closed"):
            await client.next_id("orders")
        return ids

    check_unique(asyncio.run(main()), 10)


def test_an_older_daemon_is_drawn_from_as_without(idle_host: Host) -> None:
    asked = []

    def answer(opcode: int, request: int, body: bytes) -> bytes:
        asked.append(opcode)
        if opcode == 7:
            return refusal(opcode, UNKNOWN_OPCODE, request, "no such request")
        return reply(opcode, 0, request, struct.pack("<IHHQII", 0, 1, 0, len(asked), 1, 1))

    async def call(client: leafd.AsyncClient) -> List[int]:
        return [await client.next_id("orders") for _ in range(20)]

    ids = outcome_of(idle_host.socket, answer, call, shared=True)
    assert isinstance(ids, list)
    check_unique(ids, 20)
    assert asked.count(7) == 1


@pytest.mark.parametrize("body", [b"", bytes(15), struct.pack("<IIQ", 9, 0, 0), struct.pack("<IIQ", 2, 0, 7)])
def test_an_answer_that_is_none_gives_no_id(idle_host: Host, body: bytes) -> None:
    with pytest.raises(leafd.ProtocolBroken):
        outcome_of(
            idle_host.socket,
            lambda opcode, request, _: reply(opcode, 0, request, body),
            lambda client: client.next_id("orders"),
            shared=True,
        )

"""Runs that processes of a user share in memory."""

import os
import pickle

import leafd
from conftest import Host, check_unique


def in_child(client: leafd.Client, count: int) -> int:
    """The largest of the ids that a forked child draws; they ascend."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            ids = [client.next_id("orders") for _ in range(count)]
            os.write(writing, str(ids[-1] if ids == sorted(set(ids)) else 0).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        largest = int(told.read())
    os.waitpid(child, 0)
    return largest


def test_clients_and_children_that_share_draw_in_one_order(idle_host: Host) -> None:
    rule = f'{{tags = ["orders"], share_uids = [{os.getuid()}]}}'
    idle_host.start(settings=[f"access=[{rule}]"])
    idle_host.create("orders")
    idle_host.create("held")
    clients = [idle_host.client(shared=True, timeout=30) for _ in range(2)]
    ids = [clients[turn % 2].next_id("orders") for turn in range(20_000)]
    assert ids == sorted(ids)
    check_unique(ids, 20_000)
    of_child = in_child(clients[0], 5_000)
    assert of_child > ids[-1]
    assert clients[1].next_id("orders") > of_child
    again = pickle.loads(pickle.dumps(clients[0]))
    assert of_child < again.next_id("orders") < clients[1].next_id("orders")
    # Of a tag that is not shared, as without.
    check_unique((clients[turn % 2].next_id("held") for turn in range(200)), 200)

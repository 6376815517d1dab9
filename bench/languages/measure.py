"""What a call takes in Python. leafd-bench runs it with an echo at its standard input:

    measure.py SOCKET TAG IDS DIVISOR [REDIS_SOCKET]

It prints the nanoseconds of a call by name, and adds the ids that it draws to the file IDS. Each call is timed a number of
times in a row, which DIVISOR divides.
"""

import socket
import sys
import time
import uuid
from array import array
from pathlib import Path
from typing import Callable, TypeVar

import leafd

# How many ids a batch has, and the bytes of an exchange, are those of measure.c.
BATCH = 1_000
REQUEST_BYTES, REPLY_BYTES = 28, 36

T = TypeVar("T")


def measure(name: str, calls: int, work: Callable[[], T]) -> T:
    """Times the work, which makes so many calls."""
    began = time.perf_counter_ns()
    result = work()
    print(f"{name}\t{(time.perf_counter_ns() - began) / calls:.3f}")
    return result


def exchange(line: socket.socket, times: int, request: bytes, reply_bytes: int) -> None:
    """Asks, and waits for the answer, again and again."""
    send, receive = line.sendall, line.recv
    for _ in range(times):
        send(request)
        receive(reply_bytes)


def main(daemon_socket: str, tag: str, ids: Path, divisor: int, redis_socket: str = "") -> None:
    """Measures every row."""
    held, direct, batches, uuids = (count // divisor for count in (100_000, 1_500, 200, 20_000))
    drawn = array("Q")
    with leafd.Client(daemon_socket, timeout=10) as client:
        next_id, next_id_direct = client.next_id, client.next_id_direct
        # Until the runs are as large as the rate asks for.
        drawn.extend([next_id(tag) for _ in range(held)])
        drawn.extend(measure("held", held, lambda: [next_id(tag) for _ in range(held)]))
        drawn.extend(measure("direct", direct, lambda: [next_id_direct(tag) for _ in range(direct)]))
        lists = measure("batch", batches, lambda: [client.next_ids(tag, BATCH) for _ in range(batches)])
        arrays = measure("array", batches, lambda: [client.next_ids_array(tag, BATCH) for _ in range(batches)])
    for batch in (*lists, *arrays):
        drawn.extend(batch)
    with ids.open("ab") as file:
        drawn.tofile(file)
    uuid4 = uuid.uuid4
    measure("uuid", uuids, lambda: [uuid4() for _ in range(uuids)])
    with socket.socket(fileno=0) as echo:
        measure("echo", direct, lambda: exchange(echo, direct, bytes(REQUEST_BYTES), REPLY_BYTES))
    if redis_socket:
        with socket.socket(socket.AF_UNIX) as redis:
            redis.connect(redis_socket)
            measure("redis", direct, lambda: exchange(redis, direct, b"*2\r\n$4\r\nINCR\r\n$5\r\nbench\r\n", 64))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:])

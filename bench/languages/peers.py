"""What an id takes in Python, from leafd and from what else there is. leafd-bench runs it:

    peers.py SOCKET TAG SECONDS [REDIS_SOCKET]

It prints the nanoseconds of a call by name, each called for so many seconds, or "-" where the package isn't installed.
"""

import sys
import time
import uuid
from importlib import import_module
from typing import Any, Callable, Optional

import leafd

CALLS = 50


def measure(name: str, call: Optional[Callable[[], object]], seconds: float) -> None:
    """Times a call."""
    if call is None:
        print(f"{name}\t-")
        return
    for _ in range(CALLS):
        call()
    made, began = 0, time.perf_counter_ns()
    end = began + seconds * 1e9
    while time.perf_counter_ns() < end:
        for _ in range(CALLS):
            call()
        made += CALLS
    print(f"{name}\t{(time.perf_counter_ns() - began) / made:.3f}")


def found(module: str, name: str) -> Optional[Callable[..., Any]]:
    """A module's function or class, if that module is installed and the one that is meant."""
    try:
        function: Optional[Callable[..., Any]] = getattr(import_module(module), name, None)
    except ImportError:
        return None
    return function


def main(daemon_socket: str, tag: str, seconds: float, redis_socket: str = "") -> None:
    """Measures every row."""
    with leafd.Client(daemon_socket, timeout=10) as client:
        measure("held", lambda: client.next_id(tag), seconds)
        measure("direct", lambda: client.next_id_direct(tag), seconds)
    if redis_socket:
        connect = found("redis", "Redis")
        server = connect(unix_socket_path=redis_socket) if connect else None
        measure("redis", server and (lambda: server.incr("bench")), seconds)
    measure("uuid4", uuid.uuid4, seconds)
    measure("uuid-utils", found("uuid_utils", "uuid7"), seconds)
    measure("uuid6", found("uuid6", "uuid7"), seconds)
    measure("uuid7", found("uuid_extensions", "uuid7"), seconds)
    generator = found("snowflake", "SnowflakeGenerator")
    ids = generator(1) if generator else None
    measure("snowflake-id", ids and ids.__next__, seconds)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), *sys.argv[4:])

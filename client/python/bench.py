"""What an id costs in Python and in C, beside what else there is, side by side in one run.

`client/bench` builds what it needs and runs it. It starts a daemon of its own, and a redis-server where one is installed;
rows are measured briefly in turn, round after round, and a row's figure is the median of its rounds.
"""

import argparse
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from array import array
from collections import defaultdict
from pathlib import Path
from typing import Callable, Dict, List, Optional, Tuple, Type, TypeVar

import leafd

ROOT = Path(__file__).resolve().parents[2]
CAPI = ROOT / "client" / "capi"
LIBRARY = Path(leafd.__file__).with_name("libleafd.so")

# How often each call is timed in a row. A batch, and the bytes of an exchange, are those of bench.c.
HELD, ASKED, BATCHES, BATCH, UUIDS = 100_000, 1_500, 200, 1_000, 20_000
REQUEST_BYTES, REPLY_BYTES = 28, 36

TAG = "bench"
READY_SECONDS_MAX = 10

C_HELD_NS_MAX, PYTHON_HELD_NS_MAX, PYTHON_UUID_RATIO_MIN = 15, 400, 3

ROWS = [
    ("held", "one id of a held run: leafd_next, next_id"),
    ("handle", "    through a handle: leafd_tag_next"),
    ("asked", "one id asked for: leafd_next_unleased, next_id_unleased"),
    ("batch", f"{BATCH:,} ids in one call: leafd_next_many, next_ids"),
    ("batch id", "    each of them"),
    ("array", "    as an array: next_ids_array"),
    ("array id", "    each of them"),
    ("uuid", "a random UUID: uuid_generate, uuid.uuid4"),
    ("redis", "Redis INCR over its Unix socket"),
    ("echo", "bare round trip over a Unix socket"),
]

Figures = Dict[str, List[float]]
T = TypeVar("T")


class Servers:
    """A daemon and a Redis in a folder; they end with the folder."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self.daemon_socket = str(folder / "leafd.sock")
        self.redis_socket: Optional[str] = None
        command = [str(binaries / "leafd"), "--socket", self.daemon_socket, "--state-dir", str(folder / "state")]
        # The bench is no user of a configuration that is about.
        variables = {name: value for name, value in os.environ.items() if not name.startswith("LEAFD_")}
        quiet = subprocess.DEVNULL
        self.processes = [subprocess.Popen([*command, "--set", "log=error"], env=variables, stdout=quiet)]
        self._until(lambda: leafd.Client(self.daemon_socket).connect(), leafd.Error, "leafd")
        leafctl = [str(binaries / "leafctl"), "--socket", self.daemon_socket]
        subprocess.run([*leafctl, "tag", "create", TAG], check=True, stdout=quiet)
        if shutil.which("redis-server"):
            path = str(folder / "redis.sock")
            command = ["redis-server", "--port", "0", "--save", "", "--unixsocket", path, "--dir", str(folder)]
            self.processes.append(subprocess.Popen(command, stdout=quiet))
            self._until(lambda: connect(path).close(), OSError, "redis-server")
            self.redis_socket = path

    def _until(self, attempt: Callable[[], object], failure: Type[Exception], name: str) -> None:
        end = time.monotonic() + READY_SECONDS_MAX
        while True:
            try:
                attempt()
                return
            except failure as error:
                if self.processes[-1].poll() is not None or time.monotonic() > end:
                    self.stop()
                    raise SystemExit(f"bench: {name} does not start: {error}") from None
                time.sleep(0.01)

    def stop(self) -> None:
        """Ends both."""
        for process in self.processes:
            process.terminate()
            process.wait()


def connect(path: str) -> socket.socket:
    """A connection to a server's Unix socket."""
    line = socket.socket(socket.AF_UNIX)
    line.connect(path)
    return line


def compiled(folder: Path) -> Path:
    """The bench's C program, on the library that this package carries."""
    program = folder / "bench"
    # By the name that its soname asks for.
    (folder / "libleafd.so.1").symlink_to(LIBRARY)
    command = ["cc", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{CAPI / 'include'}", str(CAPI / "bench.c"), "-o", str(program)]
    subprocess.run([*command, str(folder / "libleafd.so.1"), f"-Wl,-rpath,{folder}", "-ldl"], check=True)
    return program


def measure_in_c(program: Path, servers: Servers, ids: Path, figures: Figures) -> None:
    """One round of C's rows."""
    command = [str(program), "measure", servers.daemon_socket, TAG, str(ids)]
    command += [servers.redis_socket] if servers.redis_socket else []
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    for line in said.splitlines():
        name, ns = line.split("\t")
        figures[name].append(float(ns))
    figures["batch id"].append(figures["batch"][-1] / BATCH)


def measure_in_python(program: Path, servers: Servers, ids: Path, figures: Figures) -> None:
    """One round of Python's rows."""
    drawn = array("Q")

    def measure(name: str, calls: int, work: Callable[[], T]) -> T:
        began = time.perf_counter_ns()
        result = work()
        figures[name].append((time.perf_counter_ns() - began) / calls)
        return result

    with leafd.Client(servers.daemon_socket, timeout=10) as client:
        next_id, asked = client.next_id, client.next_id_unleased
        drawn.extend([next_id(TAG) for _ in range(HELD)])
        drawn.extend(measure("held", HELD, lambda: [next_id(TAG) for _ in range(HELD)]))
        drawn.extend(measure("asked", ASKED, lambda: [asked(TAG) for _ in range(ASKED)]))
        lists = measure("batch", BATCHES, lambda: [client.next_ids(TAG, BATCH) for _ in range(BATCHES)])
        arrays = measure("array", BATCHES, lambda: [client.next_ids_array(TAG, BATCH) for _ in range(BATCHES)])
        for batch in (*lists, *arrays):
            drawn.extend(batch)
    for name in ("batch", "array"):
        figures[f"{name} id"].append(figures[name][-1] / BATCH)
    with ids.open("ab") as file:
        drawn.tofile(file)
    uuid4 = uuid.uuid4
    measure("uuid", UUIDS, lambda: [uuid4() for _ in range(UUIDS)])
    if servers.redis_socket:
        with connect(servers.redis_socket) as line:
            measure("redis", ASKED, lambda: exchange(line, b"*2\r\n$4\r\nINCR\r\n$5\r\nbench\r\n", 64))
    ours, theirs = socket.socketpair()
    with ours, subprocess.Popen([str(program), "echo"], stdin=theirs.fileno()) as echo:
        theirs.close()
        exchange(ours, bytes(REQUEST_BYTES), REPLY_BYTES)
        measure("echo", ASKED, lambda: exchange(ours, bytes(REQUEST_BYTES), REPLY_BYTES))
        ours.close()
        echo.wait()


def exchange(line: socket.socket, request: bytes, reply_bytes: int) -> None:
    """Asks, and waits for the answer, again and again."""
    send, receive = line.sendall, line.recv
    for _ in range(ASKED):
        send(request)
        receive(reply_bytes)


def shown(ns: Optional[float]) -> str:
    """Three figures and a unit."""
    if ns is None:
        return "-"
    number, unit = (ns, "ns") if ns < 1000 else (ns / 1000, "us")
    return f"{number:.1f} {unit}" if number < 100 else f"{number:.0f} {unit}"


def verdict(name: str, holds: bool, text: str) -> str:
    """How a budget fares."""
    return f"  {'ok  ' if holds else 'OVER'}  {name}: {text}"


def report(c: Figures, python: Figures, ids: int, rounds: int) -> None:
    """Prints the table, what is in the library, and the budgets."""
    medians = {name: (_median(c, name), _median(python, name)) for name, _ in ROWS}
    print(f"leafd {leafd.__version__}, {platform.python_implementation()} {platform.python_version()}; medians of {rounds} rounds")
    print(f"{ids:,} ids drawn, none twice; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    print(f"{'a call takes':<58}{'C':>10}{'Python':>10}")
    for name, text in ROWS:
        in_c, in_python = medians[name]
        print(f"{text:<58}{shown(in_c):>10}{shown(in_python):>10}")
    needed = subprocess.run(["readelf", "-dW", str(LIBRARY)], check=True, stdout=subprocess.PIPE, text=True).stdout
    needs = [line.split("[")[1].rstrip("]") for line in needed.splitlines() if "(NEEDED)" in line]
    print(f"\nlibleafd.so: {LIBRARY.stat().st_size:,} bytes, needs {' and '.join(needs)}\n")
    in_c, in_python = medians["held"]
    uuid4 = medians["uuid"][1]
    assert in_c is not None and in_python is not None and uuid4 is not None
    ratio = uuid4 / in_python
    print(verdict("leafd_next", in_c <= C_HELD_NS_MAX, f"{in_c:.1f} ns, at most {C_HELD_NS_MAX}"))
    print(verdict("next_id", in_python <= PYTHON_HELD_NS_MAX, f"{in_python:.0f} ns, at most {PYTHON_HELD_NS_MAX}"))
    faster = f"{ratio:.1f} times as fast, at least {PYTHON_UUID_RATIO_MIN}"
    print(verdict("next_id beside uuid.uuid4", ratio >= PYTHON_UUID_RATIO_MIN, faster))


def _median(figures: Figures, name: str) -> Optional[float]:
    return statistics.median(figures[name]) if name in figures else None


def main() -> None:
    """Measures and reports."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=7, help="how often each row is measured (default: 7)")
    parser.add_argument("--binaries", type=Path, default=ROOT / "target" / "release", help="where leafd and leafctl are")
    arguments = parser.parse_args()
    sides: Tuple[Figures, Figures] = (defaultdict(list), defaultdict(list))
    with tempfile.TemporaryDirectory(prefix="leafd-bench-") as name:
        folder = Path(name)
        ids, program = folder / "ids", compiled(folder)
        servers = Servers(arguments.binaries, folder)
        try:
            for _ in range(max(arguments.rounds, 1)):
                measure_in_c(program, servers, ids, sides[0])
                measure_in_python(program, servers, ids, sides[1])
        finally:
            servers.stop()
        checked = subprocess.run([str(program), "check", str(ids)], stdout=subprocess.PIPE, text=True)
    if checked.returncode != 0:
        sys.exit(checked.returncode)
    report(*sides, int(checked.stdout), arguments.rounds)


if __name__ == "__main__":
    main()

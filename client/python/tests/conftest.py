"""Provides a real daemon for each test, in its own directory. It never outlives the test."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Dict, Iterable, Iterator, List, Optional

import leafd
import pytest
import uvloop

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "client" / "python"
BINARIES = Path(os.environ.get("TESTED_BINARIES", ROOT / "target" / "debug"))
READY_SECONDS_MAX = 30


class Host:
    """A directory, and the daemon in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = str(folder / "s")
        self.daemon: "Optional[subprocess.Popen[bytes]]" = None
        (folder / "locks").mkdir()

    def start(
        self, program: Path = BINARIES / "leafd", worker: str = "static:17", settings: Iterable[str] = ()
    ) -> None:
        """Starts the daemon, with settings such as `name=value`, and waits until it answers."""
        assert self.daemon is None
        command = [str(program), "--socket", self.socket, "--state-dir", str(self.folder / "state")]
        command += ["--worker", worker, "--set", f"worker_lock_dir={self.folder / 'locks'}"]
        for setting in settings:
            command += ["--set", setting]
        # Variables with this prefix are the daemon's settings.
        variables = {name: value for name, value in os.environ.items() if not name.startswith("LEAFD_")}
        with open(self.folder / "log", "ab") as log:
            self.daemon = subprocess.Popen(command, env=variables, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        end = time.monotonic() + READY_SECONDS_MAX
        while True:
            try:
                leafd.Client(self.socket).connect()
                return
            except leafd.Error:
                assert self.daemon.poll() is None, (self.folder / "log").read_text()
                assert time.monotonic() < end, (self.folder / "log").read_text()
                time.sleep(0.01)

    def stop(self, how: int = signal.SIGTERM) -> None:
        """Stops the daemon."""
        assert self.daemon is not None
        self.daemon.send_signal(signal.SIGCONT)
        self.daemon.send_signal(how)
        code = self.daemon.wait(30)
        self.daemon = None
        assert how == signal.SIGKILL or code == 0, (self.folder / "log").read_text()

    def pause(self) -> None:
        """Freezes the daemon."""
        assert self.daemon is not None
        self.daemon.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resumes a frozen daemon."""
        assert self.daemon is not None
        self.daemon.send_signal(signal.SIGCONT)

    def create(self, tag: str) -> None:
        """Creates a tag that starts at 1."""
        leafctl = str(BINARIES / "leafctl")
        subprocess.run([leafctl, "--socket", self.socket, "tag", "create", tag], check=True, capture_output=True)

    def client(self, **settings: object) -> leafd.Client:
        """Returns a client of this host's daemon."""
        return leafd.Client(self.socket, **{"timeout": 10.0, **settings})  # type: ignore[arg-type]

    def environment(self) -> Dict[str, str]:
        """Returns an environment in which a program finds this host's daemon."""
        return {**os.environ, "LEAFD_SOCKET": self.socket}

    def run(self, program: Path, *arguments: str) -> List[int]:
        """Runs a Python program and returns the numbers that it prints."""
        command = [sys.executable, str(program), *arguments]
        done = subprocess.run(command, env=self.environment(), capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return [int(line) for line in done.stdout.split()]


# How many ids each test has checked, for the summary.
CHECKED: "Counter[str]" = Counter()


def check_unique(ids: Iterable[int], count: Optional[int] = None) -> None:
    """Fails if an id repeats, is invalid, or is missing."""
    times = Counter(ids)
    twice = [id for id, seen in times.items() if seen > 1]
    assert not twice, f"{len(twice)} ids repeat, such as {twice[:5]}"
    assert all(0 < id < 1 << 63 for id in times)
    if count is not None:
        assert len(times) == count
    test = os.environ["PYTEST_CURRENT_TEST"].split("::")[-1].split(" ")[0]
    CHECKED[test] += len(times)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Reports how many ids were checked and found to be different and valid."""
    terminalreporter.section("ids checked")
    for test, ids in CHECKED.items():
        terminalreporter.write_line(f"{ids:>10,}  {test}")


@contextlib.contextmanager
def loops_of(library: str) -> Iterator[None]:
    """Makes asyncio use its own event loops, or those of uvloop."""
    before = asyncio.get_event_loop_policy()
    if library == "uvloop":
        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    yield
    asyncio.set_event_loop_policy(before)


@pytest.fixture(params=["asyncio", "uvloop"])
def every_loop(request: pytest.FixtureRequest) -> Iterator[None]:
    """Runs a test twice: with asyncio's event loop, and with uvloop's."""
    with loops_of(request.param):
        yield


@pytest.fixture
def idle_host() -> Iterator[Host]:
    """A host whose daemon is not started."""
    # The directory is not below pytest's own, because that path may be too long for a socket.
    with tempfile.TemporaryDirectory(prefix="leafd-py-") as folder:
        os.chmod(folder, 0o755)
        host = Host(Path(folder))
        yield host
        if host.daemon is not None:
            host.daemon.kill()
            host.daemon.wait()


@pytest.fixture
def host(idle_host: Host) -> Host:
    """A host with a daemon and the tag `orders`."""
    idle_host.start()
    idle_host.create("orders")
    return idle_host

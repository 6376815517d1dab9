"""The client that `protocol.md` shows, taken from the document and held against a real daemon."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import List

import leafd
import pytest
from conftest import ROOT, Host, check_unique
from test_forks import in_child

LINES_MAX = 60


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The document's client in a file."""
    [code] = re.findall(r"```python\n(.*?)```", (ROOT / "protocol.md").read_text(), re.S)
    assert len(code.splitlines()) <= LINES_MAX
    program = tmp_path / "client.py"
    program.write_text(code)
    return program


@pytest.fixture
def module(program: Path) -> ModuleType:
    """The same as a module."""
    spec = importlib.util.spec_from_file_location("documented_client", program)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_is_a_program(host: Host, program: Path) -> None:
    ids = host.run(program, "orders", "2000")
    assert ids == sorted(ids)
    check_unique(ids + host.run(program, "orders", "2000") + host.client().next_ids("orders", 2000), 6000)
    done = subprocess.run([sys.executable, program, "nosuch", "1"], env=host.environment(), capture_output=True, text=True)
    assert done.returncode == 1 and "TAG_UNKNOWN" in done.stderr, done.stderr


def test_it_draws_ids_of_both_kinds(host: Host, module: ModuleType) -> None:
    client = module.Client(host.socket)
    ids: List[int] = client.ids("orders", 5000) + [client.ids("orders")[0] for _ in range(500)]
    assert ids == sorted(ids)
    check_unique(ids, 5500)
    # So many don't fit into one tick, nor into one run.
    snowflakes: List[int] = client.ids("snowflake", 10_000) + client.ids("snowflake")
    assert {leafd.decode(id).worker for id in snowflakes} == {17}
    assert len({leafd.decode(id).tick for id in snowflakes}) > 1
    check_unique(snowflakes, 10_001)


def test_it_goes_on_over_restarts_and_forks(host: Host, module: ModuleType) -> None:
    client = module.Client(host.socket)
    ids: List[int] = client.ids("orders", 100)
    for _ in range(3):
        host.stop()
        host.start()
        ids += client.ids("orders", 100)
        wait = in_child(lambda: [id for _ in range(50) for id in client.ids("orders", 3)])
        ids += [id for _ in range(50) for id in client.ids("orders", 3)]
        ids += wait()
    check_unique(ids, 100 + 3 * (100 + 150 + 150))


def test_it_names_every_failure(host: Host, module: ModuleType) -> None:
    assert module.STATUSES == [status.name for status in leafd.Status][: len(module.STATUSES)]
    client = module.Client(host.socket)
    for tag, count, name in (
        ("nosuch", 1, "TAG_UNKNOWN"),
        ("", 1, "TAG_INVALID"),
        ("a\nb", 1, "TAG_INVALID"),
        ("x" * 129, 1, "TAG_INVALID"),
        ("orders", 0, "COUNT_INVALID"),
        ("orders", 1_000_001, "COUNT_INVALID"),
    ):
        with pytest.raises(module.Refused, match=f"^{name}: "):
            client.ids(tag, count)
    with pytest.raises(module.Refused, match="^UNKNOWN_OPCODE: "):
        client.ask(99, b"")
    with pytest.raises(module.Refused, match="^MALFORMED: "):
        client.ask(2, b"")
    # Too long to be read: the connection is closed, and made anew by the next call.
    with pytest.raises(module.Refused, match="^FRAME_LENGTH: "):
        client.ask(2, bytes(70_000))
    check_unique(client.ids("orders", 10), 10)
    host.stop()
    with pytest.raises(OSError):
        client.ids("orders")
    host.start(worker="none")
    with pytest.raises(module.Refused, match="^NO_WORKER: "):
        client.ids("snowflake")
    check_unique(client.ids("orders", 10), 10)

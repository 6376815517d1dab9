"""Tests the client in `protocol.md`, as extracted from the document, with a real daemon; and the protocol's vectors."""

import importlib.util
import json
import re
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, List

import leafd
import pytest
from leafd import _protocol as protocol
from conftest import ROOT, Host, check_unique
from test_forks import in_child

LINES_MAX = 60


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Writes the document's client to a file."""
    [code] = re.findall(r"```python\n(.*?)```", (ROOT / "protocol.md").read_text(), re.S)
    assert len(code.splitlines()) <= LINES_MAX
    program = tmp_path / "client.py"
    program.write_text(code)
    return program


@pytest.fixture
def module(program: Path) -> ModuleType:
    """Imports the document's client as a module."""
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
    # This many fit neither into one tick nor into one run.
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
    # The request is too long, so the daemon closes the connection, and the next call reconnects.
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


VECTORS = json.loads((ROOT / "protocol-vectors.json").read_text())


def words(text: str) -> List[str]:
    """Splits a vector into bytes: two digits each, `??` for any byte, and `...` at the end for any further bytes."""
    return [word for word in text.split() if word != "|"]


def check_bytes(name: str, expect: str, reply: bytes) -> None:
    """Fails if the bytes differ from those that a vector expects."""
    digits = words(expect)
    if digits[-1] == "...":
        digits.pop()
        reply = reply[: len(digits)]
    came = [f"{byte:02x}" if digit != "??" else "??" for byte, digit in zip(reply, digits)]
    assert came == digits and len(reply) == len(digits), name


def check_reply(name: str, said: Any, asked: Any, frame: bytes) -> None:
    """Reads a reply as the package does."""
    length, _, _, status, request = protocol.HEADER.unpack_from(frame)
    body = frame[12:]
    assert (length, request) == (len(frame) - 4, said["request_id"]), name
    if said["kind"] == "failure":
        refused = protocol.refusal(status, body)
        assert refused.status.name == said["status"], name
        assert status == said.get("number", status), name
        assert said.get("text", "") in str(refused), name
        assert refused.retry_after == (said.get("retry_after_ms", 0) / 1000 or refused.retry_after), name
        return
    if said["kind"] == "broken" and not asked["hold"]:
        with pytest.raises(leafd.ProtocolError):
            protocol.ids_of(body, asked["count"])
        return
    assert said["kind"] == "broken" or status == 0, name
    if said["kind"] == "ids" and asked is not None and not asked["hold"]:
        ids = protocol.ids_of(body, asked["count"])
        runs = [range(run["first"], run["first"] + run["count"] * run["stride"], run["stride"]) for run in said.get("runs", [])]
        assert runs in ([], ids) and sum(map(len, ids)) == asked["count"], name
    elif said["kind"] == "info":
        assert protocol.info_of(body).layouts["snowflake"] == leafd.Layout(41, 10, 12, 1, 1288834974657)
    elif said["kind"] == "json":
        example = json.loads(said.get("body", "{}"))
        assert set(example) <= set(json.loads(body)), name


def test_the_package_writes_and_reads_the_vectors() -> None:
    written = 0
    for vector in VECTORS["vectors"]:
        request = vector.get("request", {})
        if request.get("message") == "IDS":
            tag = request["tag"].encode()
            frame = protocol.ids_request(request["request_id"], tag, request["count"], request["deadline_ms"], request["hold"])
            check_bytes(vector["name"], vector["send"], frame)
            written += 1
    assert written >= 16
    for came in VECTORS["replies"]:
        check_reply(came["name"], came["reply"], came.get("asked"), bytes.fromhex("".join(words(came["bytes"]))))


def test_a_live_daemon_answers_the_vectors(host: Host) -> None:
    def connect() -> socket.socket:
        line = socket.socket(socket.AF_UNIX)
        line.settimeout(30)
        line.connect(host.socket)
        return line

    line = connect()
    for vector in VECTORS["vectors"]:
        line.sendall(bytes.fromhex("".join(words(vector["send"]))))
        frame = b""
        while len(frame) < 4 or len(frame) < 4 + int.from_bytes(frame[:4], "little"):
            piece = line.recv(1 << 16)
            assert piece, vector["name"]
            frame += piece
        check_bytes(vector["name"], vector["expect"], frame)
        if "reply" in vector:
            request = vector.get("request", {})
            check_reply(vector["name"], vector["reply"], request if "count" in request else None, frame)
        if vector.get("closes"):
            assert line.recv(1) == b"", vector["name"]
            line.close()
            line = connect()
    line.close()

"""Tests document numbers, drawn from the real daemon by both clients, and from the fakes."""

import asyncio
import re
import subprocess
from typing import Any, Dict

import leafd
import pytest
from conftest import BINARIES, ROOT, Host
from leafd import _protocol as protocol
from leafd.testing import FakeAsyncClient, FakeClient


@pytest.fixture
def numbering(host: Host) -> Host:
    """A host with two series."""
    for name, form in [("bills", "B{n:4}"), ("orders", "O-{tenant}-{n:3}")]:
        command = [str(BINARIES / "leafctl"), "--socket", host.socket, "series", "create", name, "--format", form]
        subprocess.run(command, check=True, capture_output=True)
    return host


def test_numbers_are_drawn(numbering: Host) -> None:
    with numbering.client() as client:
        assert client.next_number("bills") == "B0001"
        numbers = client.next_numbers("bills", 1500)
        assert (numbers[0], numbers[-1], len(numbers)) == ("B0002", "B1501", 1500)
        assert client.next_numbers("orders", 2, "acme") == ["O-ACME-001", "O-ACME-002"]
        assert client.next_numbers("bills", 0) == []
        with pytest.raises(leafd.UnknownTagError, match="no series"):
            client.next_number("nosuch")
        with pytest.raises(leafd.InvalidArgumentError, match="tenant"):
            client.next_number("orders")
        for count in (-1, 1_000_001, "1"):
            with pytest.raises(leafd.InvalidArgumentError, match="count"):
                client.next_numbers("bills", count)  # type: ignore[arg-type]


@pytest.mark.usefixtures("every_loop")
def test_numbers_are_awaited(numbering: Host) -> None:
    async def main() -> None:
        async with leafd.AsyncClient(numbering.socket, timeout=10) as client:
            assert await client.next_number("bills") == "B0001"
            numbers = await client.next_numbers("bills", 1500)
            assert (numbers[0], numbers[-1], len(numbers)) == ("B0002", "B1501", 1500)
            assert await client.next_number("orders", "acme") == "O-ACME-001"
            with pytest.raises(leafd.UnknownTagError, match="no series"):
                await client.next_number("nosuch")

    asyncio.run(main())


def test_what_the_guide_shows(numbering: Host) -> None:
    [code] = re.findall(r"```python\n(.*?)```", (ROOT / "docs/guide/document-numbers.md").read_text(), re.S)
    shown: Dict[str, Any] = {"client": numbering.client()}
    exec(code.replace("invoices", "bills"), shown)
    assert (shown["invoice"], shown["orders"]) == ("B0001", ["O-ACME-001", "O-ACME-002", "O-ACME-003"])


def test_fakes_count_as_well() -> None:
    fake = FakeClient()
    assert fake.next_numbers("bills", 2) == ["bills-1", "bills-2"]
    assert fake.next_number("orders", "acme") == "orders-ACME-1"
    assert asyncio.run(FakeAsyncClient(fake).next_number("bills")) == "bills-3"


@pytest.mark.parametrize("body", [b"", b"\n", b"B1\n", b"\nB1", b"B1\nB2"])
def test_a_broken_answer_is_none(body: bytes) -> None:
    with pytest.raises(leafd.ProtocolError):
        protocol.numbers_of(body, 1)

"""Tests the helpers that programs use in their own tests."""

import asyncio
import datetime
import inspect
import os
import subprocess
import sys
from array import array
from itertools import islice
from pathlib import Path

import leafd
import pytest
from conftest import BINARIES, Host, check_unique
from leafd.testing import Call, FakeAsyncClient, FakeClient, daemon


def test_a_fake_gives_known_ids_and_records_calls() -> None:
    with FakeClient(starts={"items": 1000}) as fake:
        assert fake.connect() is fake
        assert [fake.next_id("orders"), fake.next_id_direct("orders"), fake.held_id("orders")] == [1, 2, 3]
        assert fake.next_ids("orders", 3) == [4, 5, 6]
        assert fake.next_ids_array("items", 2) == array("Q", [1000, 1001])
        buffer = array("q", [0] * 3)
        fake.next_ids_into("items", memoryview(buffer)[1:])
        assert list(buffer) == [0, 1002, 1003]
        assert list(islice(fake.ids("orders"), 2)) == [7, 8]
        assert fake.calls[:2] == [Call("next_id", "orders", 1), Call("next_id_direct", "orders", 1)]
        assert fake.calls[3] == Call("next_ids", "orders", 3)
        decoded = [leafd.decode(id, fake.layout()) for id in fake.next_ids("snowflake", 2)]
        assert decoded[0].time == datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
        assert [parts.tick - decoded[0].tick for parts in decoded] == [0, 1]
        fake.reset()
        assert fake.calls == [] and fake.next_id("orders") == 1
    with pytest.raises(leafd.Error, match="closed"):
        fake.next_id("orders")


def test_a_fake_fails_as_told_and_as_the_client_does() -> None:
    fake = FakeClient(tags=["orders"])
    fake.fail(leafd.UnavailableError("away", retryable=True), times=2)
    for _ in range(2):
        with pytest.raises(leafd.UnavailableError):
            fake.next_id("orders")
    assert fake.next_id("orders") == 1
    with pytest.raises(leafd.UnknownTagError):
        fake.next_id("nosuch")
    for tag in ("", "a\0b", "\ud800"):
        with pytest.raises(leafd.InvalidArgumentError):
            fake.next_id(tag)
    with pytest.raises(leafd.InvalidArgumentError):
        fake.next_ids("orders", -1)
    with pytest.raises(leafd.InvalidArgumentError):
        fake.next_ids_into("orders", bytes(16))
    with pytest.raises(leafd.InvalidArgumentError):
        fake.layout("other")


def first_of(source: leafd.IdSource) -> int:
    assert source.info().segments_ready
    return source.next_ids("orders", 2)[0]


async def first_awaited(source: leafd.AsyncIdSource) -> int:
    assert (await source.info()).segments_ready
    return (await source.next_ids("orders", 2))[0]


@pytest.mark.usefixtures("every_loop")
def test_code_that_names_a_source_takes_clients_and_fakes(host: Host) -> None:
    async def main() -> int:
        async with leafd.AsyncClient(host.socket) as client:
            return await first_awaited(client)

    assert first_of(FakeClient()) == 1 and first_of(host.client()) > 0
    assert asyncio.run(first_awaited(FakeAsyncClient())) == 1 and asyncio.run(main()) > 0


@pytest.mark.usefixtures("every_loop")
def test_a_fake_is_awaited() -> None:
    async def main() -> None:
        async with FakeAsyncClient(tags=["orders"]) as fake:
            assert await fake.connect() is fake
            assert [await fake.next_id("orders"), await fake.next_id_direct("orders")] == [1, 2]
            assert await fake.next_ids("orders", 2) == [3, 4]
            assert await fake.ids("orders").__anext__() == 5
            assert await fake.layout() == leafd.LEAF
            assert len(fake.calls) == 4

    asyncio.run(main())


@pytest.mark.parametrize(("fake", "real"), [(FakeClient, leafd.Client), (FakeAsyncClient, leafd.AsyncClient)])
def test_a_fake_has_all_that_the_client_has(fake: type, real: type) -> None:
    for name, member in vars(real).items():
        if not name.startswith("_"):
            assert hasattr(fake, name), name
            if callable(member):
                theirs = list(inspect.signature(getattr(fake, name)).parameters)
                assert theirs == list(inspect.signature(member).parameters), name


def test_a_daemon_for_a_test() -> None:
    with daemon(tags=["orders"], program=str(BINARIES / "leafd")) as here:
        with here.client() as client:
            ids = client.next_ids("orders", 5)
            here.create("items", start=1000, description="of a test")
            assert client.next_id("items") == 1000
            with pytest.raises(leafd.InvalidArgumentError):
                here.create("orders")
            here.stop()
            here.start()
            ids += client.next_ids("orders", 5)
        check_unique(ids, 10)
        folder = here.folder
    assert not folder.exists()
    with pytest.raises(FileNotFoundError, match="LEAFD_PROGRAM"):
        with daemon(program="/nowhere/leafd"):
            pass


TESTS = """
import leafd

def test_fake(fake_leafd):
    assert fake_leafd.next_id("orders") == 1

def test_real(leafd_daemon):
    leafd_daemon.create("orders")
    assert leafd.Client().next_id("orders") == 1
"""


def test_the_fixtures_for_pytest(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["leafd.pytest_plugin"]\n')
    (tmp_path / "test_application.py").write_text(TESTS)
    environment = {**os.environ, "LEAFD_PROGRAM": str(BINARIES / "leafd"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr

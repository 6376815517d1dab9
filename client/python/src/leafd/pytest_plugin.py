"""Fixtures for pytest: `pytest_plugins = ["leafd.pytest_plugin"]` in a conftest.py."""

import os
from typing import Iterator

import pytest

from .testing import Daemon, FakeClient, daemon


@pytest.fixture
def fake_leafd() -> FakeClient:
    """A client that needs no daemon and has predictable ids."""
    return FakeClient()


@pytest.fixture(scope="session")
def leafd_daemon() -> Iterator[Daemon]:
    """A real daemon for all tests. While it runs, LEAFD_SOCKET is set to its socket, so clients find it
    automatically."""
    before = os.environ.get("LEAFD_SOCKET")
    with daemon() as here:
        os.environ["LEAFD_SOCKET"] = here.socket
        try:
            yield here
        finally:
            if before is None:
                del os.environ["LEAFD_SOCKET"]
            else:
                os.environ["LEAFD_SOCKET"] = before

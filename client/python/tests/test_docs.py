"""Runs the code in the README and the pages."""

import asyncio
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, List

import leafd
import pytest
from conftest import BINARIES, PACKAGE, Host, check_unique
from leafd.testing import FakeClient


def blocks(page: str) -> List[str]:
    """Returns the programs on a page."""
    return re.findall(r"```python\n(.*?)```", (PACKAGE / page).read_text(), re.S)


@pytest.fixture
def shown(host: Host, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Creates a module from the code on a page."""
    monkeypatch.setenv("LEAFD_SOCKET", host.socket)

    def module(page: str) -> ModuleType:
        made = ModuleType("shown")
        monkeypatch.setitem(sys.modules, "shown", made)
        for block in blocks(page):
            exec(compile(block, page, "exec"), made.__dict__)
        return made

    return module


@pytest.mark.usefixtures("every_loop")
def test_the_readme(host: Host, shown: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAFD_SOCKET", host.socket)
    blocking, awaited = blocks("README.md")
    names: "dict[str, Any]" = {}
    exec(blocking, names)
    indented = "".join(f"    {line}\n" for line in awaited.splitlines())
    exec(f"async def main():\n{indented}    return [order_id, *hundred]\n", names)
    ids = asyncio.run(names["main"]())
    check_unique([names["order_id"], *names["hundred"], names["in_order"], *ids], 203)


def test_trio_by_threads(host: Host) -> None:
    # It is imported by name, because its types are not checked here.
    trio = importlib.import_module("trio")
    [words] = re.findall(r"`(client\.held_id\(tag\)[^`]*)`", (PACKAGE / "README.md").read_text())
    names: "dict[str, Any]" = {"client": host.client(), "trio": trio}
    exec(f"async def next_id(tag):\n    return {words}\n", names)
    ids: List[int] = []

    async def draw() -> None:
        for _ in range(100):
            ids.append(await names["next_id"]("orders"))

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(draw)

    trio.run(main)
    check_unique(ids, 1000)


def test_fastapi(host: Host, shown: Any) -> None:
    # It is imported by name, because type checkers reject its source for the oldest Python.
    TestClient = importlib.import_module("fastapi.testclient").TestClient

    module = shown("docs/fastapi.md")
    with TestClient(module.app) as client:
        answers = [client.post("/orders", params={"item": "tea"}) for _ in range(20)]
        check_unique((int(answer.json()["id"]) for answer in answers), 20)
        host.pause()
        # Held ids are returned first; then the response says when to retry.
        for _ in range(100):
            answer = client.post("/orders", params={"item": "tea"})
            if answer.status_code != 200:
                break
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        host.resume()


DJANGO = """
import sys
import django
from django.conf import settings
settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
                   INSTALLED_APPS=[], USE_TZ=True)
django.setup()
%s
from django.db import connection
import datetime
with connection.schema_editor() as editor:
    editor.create_model(Order)
Order.objects.bulk_create(Order(item="tea") for _ in range(10))
begin = datetime.datetime(2015, 1, 1, tzinfo=datetime.timezone.utc)
assert orders_of(begin, begin + datetime.timedelta(days=1)).count() == 0
print(*Order.objects.values_list("id", flat=True))
"""


def test_django(host: Host, tmp_path: Path) -> None:
    code = "\n".join(blocks("docs/django.md")).replace("    item =", "    class Meta:\n        app_label = 'shop'\n    item =")
    (tmp_path / "shop.py").write_text(DJANGO % code)
    check_unique(host.run(tmp_path / "shop.py"), 10)


def test_sqlalchemy(host: Host, shown: Any) -> None:
    from sqlalchemy import create_engine, select
    from sqlalchemy.orm import Session

    host.create("order_lines")
    module = shown("docs/sqlalchemy.md")
    engine = create_engine("sqlite://")
    module.Base.metadata.create_all(engine)
    with Session(engine) as session:
        drawn = module.insert_orders(session, ["tea", "milk"])
        session.add_all(module.Line(order_id=drawn[0]) for _ in range(5))
        session.add(module.Order(item="bread"))
        session.flush()
        check_unique(session.scalars(select(module.Order.id)), 3)
        check_unique(session.scalars(select(module.Line.id)), 5)


def test_celery(host: Host, shown: Any) -> None:
    host.create("shipments")
    module = shown("docs/celery.md")
    module.app.conf.update(task_always_eager=True, broker_url="memory://")
    ids = [module.order_shipped(5).get() for _ in range(10)]
    check_unique(ids, 10)
    check_unique((id for id, _ in module.import_orders.delay(["tea"] * 10).get()), 10)


def test_gunicorn(shown: Any) -> None:
    module = shown("docs/gunicorn.md")
    said: List[str] = []
    answers = [module.application({}, lambda status, _: said.append(status)) for _ in range(10)]
    check_unique((int(answer) for [answer] in answers), 10)
    assert set(said) == {"200 OK"}


def test_retries(shown: Any) -> None:
    module = shown("docs/retries.md")
    fake = FakeClient()
    fake.fail(leafd.UnavailableError("away", retryable=True), times=2)
    assert module.next_id_patiently(fake, "orders") == 1
    fake.fail(leafd.UnknownTagError("none"))
    with pytest.raises(leafd.UnknownTagError):
        module.next_id_patiently(fake, "orders")
    fake.fail(leafd.UnavailableError("away", retryable=True, retry_after=60.0))
    with pytest.raises(leafd.UnavailableError):
        module.next_id_patiently(fake, "orders")


def test_testing(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["leafd.pytest_plugin"]\n')
    (tmp_path / "test_shown.py").write_text("\n".join(blocks("docs/testing.md")))
    environment = {**os.environ, "LEAFD_PROGRAM": str(BINARIES / "leafd"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "4 passed" in done.stdout, done.stdout + done.stderr


def test_links_lead_somewhere() -> None:
    for page in [PACKAGE / "README.md", *(PACKAGE / "docs").iterdir()]:
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"

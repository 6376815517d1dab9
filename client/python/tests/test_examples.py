"""The examples, run against real databases, and the client that `protocol.md` shows."""

import re
import sqlite3
import subprocess
import sys
from pathlib import Path

from conftest import ROOT, Host, check_unique

PACKAGE = ROOT / "client" / "python"
LINES_MAX = 60


def check_rows(host: Host, program: str, table: str) -> None:
    database = host.folder / "example.db"
    name = f"sqlite:///{database}" if "sqlalchemy" in program else str(database)
    printed = host.run(PACKAGE / "examples" / program, name, "200")
    with sqlite3.connect(database) as connection:
        rows = [id for (id,) in connection.execute(f"SELECT id FROM {table} ORDER BY id")]
    connection.close()
    assert rows == printed
    check_unique(rows, 200)


def test_a_sqlalchemy_default(host: Host) -> None:
    check_rows(host, "sqlalchemy_default.py", "orders")


def test_a_django_default(host: Host) -> None:
    check_rows(host, "django_default.py", "example_order")


def test_the_protocols_document_is_enough_for_a_client(host: Host, tmp_path: Path) -> None:
    document = (ROOT / "protocol.md").read_text()
    [code] = re.findall(r"```python\n(.*?)```", document, re.S)
    assert len(code.splitlines()) <= LINES_MAX
    program = tmp_path / "client.py"
    program.write_text(code)
    ids = host.run(program, "orders", "2000")
    ids += host.run(program, "orders", "2000")
    ids += host.client().next_ids("orders", 2000)
    check_unique(ids, 6000)
    assert ids[:2000] == sorted(ids[:2000])
    done = subprocess.run([sys.executable, program, "nosuch", "1"], env=host.environment(), capture_output=True, text=True)
    assert done.returncode == 1 and "TAG_UNKNOWN" in done.stderr, done.stderr


def test_the_types_are_clean() -> None:
    checked = [PACKAGE / "src" / "leafd", PACKAGE / "examples" / "sqlalchemy_default.py"]
    command = [sys.executable, "-m", "mypy", "--strict", "--python-version", "3.9", "--no-incremental", *checked]
    done = subprocess.run(command, capture_output=True, text=True, cwd=PACKAGE)
    assert done.returncode == 0, done.stdout + done.stderr


USE = """
import leafd
from array import array
reveal_type(leafd.Client().next_id("orders"))
reveal_type(leafd.Client().next_ids("orders", 5))
reveal_type(leafd.Client().layout().tick_ms)
id: str = leafd.Client().next_id(5)
"""


def test_the_installed_package_is_typed(tmp_path: Path) -> None:
    (tmp_path / "use.py").write_text(USE)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "use.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert 'Revealed type is "builtins.int"' in done.stdout, done.stdout + done.stderr
    assert 'Revealed type is "builtins.list[builtins.int]"' in done.stdout
    assert "[arg-type]" in done.stdout and "[assignment]" in done.stdout
    assert "import-untyped" not in done.stdout

"""Runs the examples with real databases."""

import re
import sqlite3
from pathlib import Path

import pytest
from conftest import PACKAGE, ROOT, Host, check_unique


@pytest.mark.parametrize(
    ("program", "database", "table"),
    [("sqlalchemy_default.py", "sqlite:///{}", "orders"), ("django_default.py", "{}", "example_order")],
)
def test_defaults_of_columns_and_fields(host: Host, program: str, database: str, table: str) -> None:
    file = host.folder / "example.db"
    printed = host.run(PACKAGE / "examples" / program, database.format(file), "200")
    with sqlite3.connect(file) as connection:
        rows = [id for (id,) in connection.execute(f"SELECT id FROM {table} ORDER BY id")]
    connection.close()
    assert rows == printed
    check_unique(rows, 200)


@pytest.mark.parametrize("page", ["README.md", "docs/guide/clients.md"])
def test_what_the_pages_of_all_languages_show(host: Host, tmp_path: Path, page: str) -> None:
    [code] = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)
    program = tmp_path / "shown.py"
    program.write_text(code + 'print(order_id, *hundred, sep="\\n")\n')
    check_unique(host.run(program), 101)

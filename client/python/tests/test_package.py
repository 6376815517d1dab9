"""Tests the installed package: its content, the Pythons that it works with, and what type checkers see."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import List

import leafd
from conftest import PACKAGE, ROOT, Host, check_unique
from packaging.metadata import Metadata

INSTALLED = Path(leafd.__file__).parent
PYTHONS = [*(f"python3.{minor}" for minor in range(9, 15)), "pypy3"]


def test_the_wheel_carries_the_package_and_its_library_alone() -> None:
    distribution = importlib.metadata.distribution("leafd")
    files = {file.as_posix() for file in distribution.files or [] if "__pycache__" not in file.parts}
    sources = {f"leafd/{file.name}" for file in (PACKAGE / "src" / "leafd").iterdir() if file.suffix in (".py", ".typed")}
    assert {file for file in files if ".dist-info/" not in file} == {*sources, "leafd/libleafd.so"}
    # The tag has neither a version of Python nor an ABI: one wheel is for all Pythons on this platform.
    wheel = distribution.read_text("WHEEL")
    assert wheel is not None and "Root-Is-Purelib: false" in wheel
    [tag] = [line.split(": ")[1] for line in wheel.splitlines() if line.startswith("Tag: ")]
    assert tag.startswith("py3-none-linux_"), tag
    assert leafd.__version__ == distribution.version
    assert distribution.requires is None
    # PyPI does the same check.
    Metadata.from_email(distribution.read_text("METADATA") or "", validate=True)
    metadata = distribution.metadata
    assert metadata["License-Expression"] == "Apache-2.0"
    assert distribution.read_text("licenses/LICENSE") == (ROOT / "LICENSE").read_text()
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    assert "# leafd for Python" in str(metadata.get_payload())
    for file in sorted(INSTALLED.iterdir()):
        if file.is_file():
            print(f"{file.stat().st_size:>10,}  {file.name}")


DRAW = """
import sys
import leafd

with leafd.Client() as client:
    ids = [client.next_id("orders") for _ in range(100)] + client.next_ids("orders", 100)
    ids.append(client.next_id_direct("orders"))
    leafd.decode(client.next_id("snowflake"), client.layout())
    try:
        client.next_id("nosuch")
    except leafd.UnknownTagError:
        print(*ids, sep="\\n")
"""


def test_it_fits_every_python_that_is_here(host: Host, tmp_path: Path) -> None:
    shutil.copytree(INSTALLED, tmp_path / "leafd")
    environment = {**host.environment(), "PYTHONPATH": str(tmp_path)}
    assert shutil.which("pypy3"), "pypy3 is missing; install it: one wheel is for PyPy as well"
    ids: List[int] = []
    fitting = []
    for python in [sys.executable, *filter(None, map(shutil.which, PYTHONS))]:
        # A name may exist for an interpreter that doesn't.
        version = subprocess.run([python, "-V"], capture_output=True, text=True)
        if version.returncode == 0:
            done = subprocess.run([python, "-c", DRAW], env=environment, capture_output=True, text=True)
            assert done.returncode == 0, f"{python}: {done.stderr}"
            ids += map(int, done.stdout.split())
            fitting.append(version.stdout.strip())
    print(*fitting, sep=", ")
    check_unique(ids, 201 * len(fitting))


def import_with(folder: Path) -> str:
    """Imports the package from a directory, and returns the error."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run([sys.executable, "-c", "import leafd"], env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    return done.stderr.splitlines()[-1]


def test_a_library_that_is_missing_or_of_another_abi_is_refused(tmp_path: Path) -> None:
    shutil.copytree(INSTALLED, tmp_path / "leafd")
    library = tmp_path / "leafd" / "libleafd.so"
    library.unlink()
    said = import_with(tmp_path)
    assert said.startswith("ImportError: leafd's library can't be loaded") and "install the package again" in said
    (tmp_path / "other.c").write_text("unsigned leafd_abi_version(void) { return 2; }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, tmp_path / "other.c"], check=True)
    said = import_with(tmp_path)
    assert said.startswith("ImportError") and "has ABI 2, and this package needs 1" in said, said


def mypy(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Checks types for the oldest Python. Results for unchanged files are cached."""
    cache = str(Path(sys.prefix).parent / "mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--python-version", "3.9", "--cache-dir", cache, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder)


def test_the_types_are_clean() -> None:
    done = mypy(PACKAGE, "src/leafd", "examples/sqlalchemy_default.py", "tests")
    assert done.returncode == 0, done.stdout + done.stderr


USE = """
import leafd

client = leafd.Client()
reveal_type(client.next_id("orders"))
reveal_type(client.next_ids("orders", 5))
reveal_type(client.layout().tick_ms)
id: str = client.next_id(5)
"""


def test_programs_that_use_it_are_checked(tmp_path: Path) -> None:
    (tmp_path / "use.py").write_text(USE)
    said = mypy(tmp_path, "use.py").stdout
    for word in ('"builtins.int"', '"builtins.list[builtins.int]"', "[arg-type]", "[assignment]"):
        assert word in said, said
    assert "import-untyped" not in said, said

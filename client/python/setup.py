"""Builds libleafd.so into the package with make, and tags the wheel accordingly.

The wheel contains no extension module, so it works with every CPython from 3.9 on (and PyPy) on one platform. The
source distribution contains the library's source in `rust`, so it can be built on its own.
"""

import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = Path(__file__).resolve().parent
IN_SDIST = HERE / "rust"
ROOT = IN_SDIST if IN_SDIST.is_dir() else HERE.parent.parent
CRATES = ("client", "client/capi", "client/wire")


def cargo() -> str:
    """Returns the path of cargo, which builds the library."""
    return os.environ.get("CARGO") or shutil.which("cargo") or str(Path.home() / ".cargo/bin/cargo")


def build_library() -> Path:
    """Builds libleafd.so and returns its path. The variable `LEAFD_TARGET` selects the target in rustc's notation; set
    `CC` to match."""
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
    kind = os.environ.get("LEAFD_TARGET", "")
    for program, words in ((cargo(), "Rust: see https://rustup.rs"), ("make", "make and a C compiler")):
        if shutil.which(program) is None:
            raise SystemExit(f"{program} not found; building leafd's library requires {words}")
    command = ["make", "--silent", "-C", str(ROOT / "client" / "capi"), "build", f"TARGET={kind}"]
    try:
        subprocess.run(command, env={**os.environ, "CARGO": cargo(), "CARGO_TARGET_DIR": str(target)}, check=True)
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"leafd's library could not be built (exit status {error.returncode})") from None
    return target / kind / "capi" / "libleafd.so"


class BuildWithLibrary(build_py):
    """Copies the Python files, and the library next to them."""

    def run(self) -> None:
        super().run()
        package = HERE / "src" / "leafd" if self.editable_mode else Path(self.build_lib) / "leafd"
        package.mkdir(parents=True, exist_ok=True)
        shutil.copy2(build_library(), package / "libleafd.so")


class WheelForEveryPython(bdist_wheel):
    """One wheel for all versions of Python, on one platform."""

    def get_tag(self) -> "tuple[str, str, str]":
        platform = self.plat_name if self.plat_name_supplied else sysconfig.get_platform()
        return "py3", "none", platform.replace("-", "_").replace(".", "_")


class SourceWithLibrary(sdist):
    """Adds the library's sources as a separate workspace."""

    def make_release_tree(self, base_dir: str, files: Any) -> None:
        super().make_release_tree(base_dir, files)
        to = Path(base_dir) / "rust"
        shutil.rmtree(to, ignore_errors=True)
        if IN_SDIST.is_dir():
            shutil.copytree(IN_SDIST, to)
            return
        for crate in CRATES:
            shutil.copytree(ROOT / crate / "src", to / crate / "src")
            if (ROOT / crate / "README.md").exists():
                shutil.copy2(ROOT / crate / "README.md", to / crate)
            # Dependencies used only by tests are not included.
            manifest = (ROOT / crate / "Cargo.toml").read_text()
            (to / crate / "Cargo.toml").write_text(re.sub(r"\[dev-dependencies\]\n(?:[^\[\n].*\n)*\n?", "", manifest))
        capi = ROOT / "client" / "capi"
        for name in ("Makefile", "leafd.map", "leafd.pc.in", "tsan.supp"):
            shutil.copy2(capi / name, to / "client" / "capi" / name)
        shutil.copytree(capi / "include", to / "client" / "capi" / "include")
        members = ", ".join(f'"{crate}"' for crate in CRATES)
        workspace = (ROOT / "Cargo.toml").read_text()
        (to / "Cargo.toml").write_text(re.sub(r"members = \[[^\]]*\]", f"members = [{members}]", workspace))
        shutil.copy2(ROOT / "Cargo.lock", to)
        drop_the_rest_from_lock(to)


def drop_the_rest_from_lock(workspace: Path) -> None:
    """Reduces cargo's lock file to the workspace's own dependencies, without changing versions."""
    command = [cargo(), "update", "--workspace", "--quiet", "--manifest-path", str(workspace / "Cargo.toml")]
    # Offline, if cargo has the registry's index cached.
    if subprocess.run([*command, "--offline"], stderr=subprocess.DEVNULL).returncode:
        subprocess.run(command, check=True)


class WithLibrary(Distribution):
    """Marks the package as platform-specific."""

    def has_ext_modules(self) -> bool:
        return True


setup(
    distclass=WithLibrary,
    cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": WheelForEveryPython, "sdist": SourceWithLibrary},
)

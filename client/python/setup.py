"""Has cargo build libleafd.so into the package, and names the wheel for what it then is.

The wheel carries no extension module: it fits every CPython from 3.9 up (and PyPy), on this kind of machine.
"""

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
CAPI = HERE.parent / "capi"


def build_library() -> Path:
    """Builds libleafd.so and returns its path."""
    cargo = os.environ.get("CARGO") or shutil.which("cargo") or str(Path.home() / ".cargo/bin/cargo")
    target = Path(os.environ.get("CARGO_TARGET_DIR") or HERE.parent.parent / "target")
    command = [cargo, "build", "--manifest-path", str(CAPI / "Cargo.toml"), "--profile", "capi", "--locked"]
    try:
        subprocess.run([*command, "--target-dir", str(target)], check=True)
    except FileNotFoundError:
        raise SystemExit("leafd's library is written in Rust, and cargo isn't here: see https://rustup.rs") from None
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"cargo could not build leafd's library (exit status {error.returncode})") from None
    return target / "capi" / "libleafd.so"


class BuildWithLibrary(build_py):
    """Copies the Python files, and the library beside them."""

    def run(self) -> None:
        super().run()
        package = HERE / "src" / "leafd" if self.editable_mode else Path(self.build_lib) / "leafd"
        package.mkdir(parents=True, exist_ok=True)
        shutil.copy2(build_library(), package / "libleafd.so")


class WheelForEveryPython(bdist_wheel):
    """One wheel for all versions of Python, on one platform."""

    def get_tag(self) -> "tuple[str, str, str]":
        return "py3", "none", sysconfig.get_platform().replace("-", "_").replace(".", "_")


class WithLibrary(Distribution):
    """Goes where packages with machine code go."""

    def has_ext_modules(self) -> bool:
        return True


setup(distclass=WithLibrary, cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": WheelForEveryPython})

"""Bindings to libleafd.so.

Functions that never wait are called through ``quick``, which keeps the interpreter's lock, because releasing it would
cost more than the call. Functions that may wait are called through a :class:`Waiting`, which lets other threads and
greenlets run meanwhile, and signal handlers in the main thread.
"""

from __future__ import annotations

import _thread
import ctypes
import os
import sys
import threading
from ctypes import POINTER, c_bool, c_char, c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any, Callable, Optional, Type

from ._errors import Error, InvalidArgumentError, error_of

ABI_VERSION = 1

TIMEOUT_DEFAULT = 0xFFFF_FFFF
TIMEOUT_MS_MAX = 60_000
WAIT_MS_MAX = 3_600_000
COUNT_MAX = 1_000_000_000
DIRECT = 1
NO_POLLING = 2

_path = str(Path(__file__).with_name("libleafd.so"))
# PyPy has no PyDLL, and releases its lock during each call.
_keeping_the_lock: Type[ctypes.CDLL] = getattr(ctypes, "PyDLL", ctypes.CDLL)
try:
    quick = _keeping_the_lock(_path)
    # A separate object, so that all functions of an object wait in the same way.
    watched = _keeping_the_lock(_path)
    waiting = ctypes.CDLL(_path)
except OSError as error:
    raise ImportError(f"leafd's library can't be loaded: {error}; install the package again with pip") from error

quick.leafd_abi_version.restype = c_uint32
if quick.leafd_abi_version() != ABI_VERSION:
    raise ImportError(f"{_path} has ABI {quick.leafd_abi_version()}, and this package needs {ABI_VERSION}")


def _declare(function: Any, *arguments: Any, result: Any = c_uint32) -> Any:
    function.argtypes = arguments
    function.restype = result
    return function


_client_free = _declare(quick.leafd_free, c_void_p)
_tag_free = _declare(quick.leafd_tag_free, c_void_p)


class ClientHandle(c_void_p):
    """A client in the library. It is freed when its last reference is gone, so never while a call uses it."""

    def __del__(self, free: Any = _client_free) -> None:
        if self.value:
            free(self)


class TagHandle(c_void_p):
    """A tag in the library. It is freed in the same way."""

    def __del__(self, free: Any = _tag_free) -> None:
        if self.value:
            free(self)


version = _declare(quick.leafd_version, result=c_char_p)

class Settings(ctypes.Structure):
    """The settings of a client: `leafd_settings` in C."""

    _fields_ = [("socket_path", c_char_p), ("timeout_ms", c_uint32), ("wait_ms", c_uint32), ("flags", c_uint32)]


class _CallError(ctypes.Structure):
    """The error of a failed call: `leafd_error` in C."""

    _fields_ = [
        ("status", c_uint32),
        ("retry_after_ms", c_uint32),
        ("os_error", c_int32),
        ("retryable", c_bool),
        ("message", c_char * 1024),
    ]

    def exception(self) -> Error:
        return error_of(
            self.status,
            self.message.decode("utf-8", "replace"),
            retryable=self.retryable,
            retry_after=self.retry_after_ms / 1000 if self.retry_after_ms else None,
            errno=self.os_error or None,
        )


_ERROR = POINTER(_CallError)


def call(function: Any, *arguments: Any) -> None:
    """Makes a call that doesn't wait, and raises its error, if any."""
    error = _CallError()
    if function(*arguments, ctypes.byref(error)):
        raise error.exception()


client_new = _declare(quick.leafd_new, POINTER(Settings), POINTER(c_void_p), _ERROR)
tag_new = _declare(quick.leafd_tag_new, c_void_p, c_char_p, c_uint32, POINTER(c_void_p), _ERROR)


class Waiting:
    """A function of the library that may wait."""

    __slots__ = ("_elsewhere", "_in_main")

    def __init__(self, name: str, *arguments: Any) -> None:
        self._elsewhere = _declare(getattr(waiting, name), *arguments, _ERROR)
        # ctypes keeps the lock here; the library releases it while it waits, and takes it to run signal handlers.
        self._in_main = _declare(getattr(watched, name), *arguments, _ERROR)

    def __call__(self, *arguments: Any) -> None:
        """Makes the call, and raises its error, if any."""
        error = _CallError()
        arguments = (*arguments, ctypes.byref(error))
        patched = sys.modules.get("gevent.monkey")
        if patched is not None and patched.is_module_patched("socket"):
            # Greenlets share a thread, so a thread of the pool waits instead.
            status = sys.modules["gevent"].get_hub().threadpool.apply(self._elsewhere, arguments)
        elif _thread.get_ident() == _main.ident and _main.is_watched():
            status = self._in_main(*arguments)
        else:
            status = self._elsewhere(*arguments)
        if status:
            raise error.exception()


class _Interpreter(ctypes.Structure):
    _fields_ = [("leave", c_void_p), ("enter", c_void_p), ("check", c_void_p)]


class _Main:
    """The main thread, in which signal handlers run. In a forked child, it is the thread that forked."""

    def __init__(self) -> None:
        self.find()
        os.register_at_fork(after_in_child=self.find)

    def find(self) -> None:
        """Determines which thread is the main thread."""
        self.ident = threading.main_thread().ident
        self._is_watched: Optional[bool] = None

    def is_watched(self) -> bool:
        """Whether waits of the main thread let signal handlers run. The first call, in that thread, sets this up."""
        if self._is_watched is None:
            self._is_watched = self._watch()
        return self._is_watched

    def _watch(self) -> bool:
        # Only CPython makes these functions available to ctypes.
        python = getattr(ctypes, "pythonapi", None)
        if python is None or sys.implementation.name != "cpython":
            return False
        names = ("PyEval_SaveThread", "PyEval_RestoreThread", "PyErr_CheckSignals")
        functions = [ctypes.cast(getattr(python, name), c_void_p) for name in names]
        status: int = _set_interpreter(ctypes.byref(_Interpreter(*functions)), None)
        return status == 0


class DaemonInfo(ctypes.Structure):
    """What the daemon reports about itself."""

    _fields_ = [
        ("segments_ready", c_bool),
        ("snowflake_ready", c_bool),
        ("pid", c_uint32),
        ("release", c_char * 32),
    ]


info = Waiting("leafd_info", c_void_p, c_uint32, POINTER(DaemonInfo))
tag_next = Waiting("leafd_tag_next", c_void_p, c_uint32, POINTER(c_uint64))
tag_next_many = Waiting("leafd_tag_next_many", c_void_p, c_uint32, POINTER(c_uint64), c_size_t)
series_next = Waiting(
    "leafd_series_next", c_void_p, c_char_p, c_char_p, c_uint32, c_void_p, c_uint32
)
next_direct = Waiting("leafd_next_direct", c_void_p, c_char_p, c_uint32, POINTER(c_uint64))
_set_interpreter = _declare(quick.leafd_set_interpreter, POINTER(_Interpreter), _ERROR)
_main = _Main()

loop_wish: Callable[[TagHandle, int], int] = _declare(quick.leafd_loop_wish, c_void_p, c_uint32)
_loop_hold = _declare(
    quick.leafd_loop_hold, c_void_p, c_char_p, c_size_t, c_uint32, c_uint64, POINTER(c_uint64), _ERROR
)
_socket_path = _declare(quick.leafd_socket_path, c_void_p, c_char_p, c_size_t, result=c_size_t)

# No argument types are declared, because all callers pass handles, and ctypes' checks would take half the time of the
# call.
take = quick.leafd_tag_take
take.restype = c_uint64
loop_take = quick.leafd_loop_take
loop_take.restype = c_uint64
loop_advance: Callable[[TagHandle], int] = quick.leafd_loop_advance
loop_advance.restype = c_uint64  # type: ignore[attr-defined]

REFILL = 1 << 63
"""A flag in the result of `loop_take`: it is time to request the next run."""


def hold(tag: TagHandle, reply: bytes, asked: int, asked_ns: int) -> int:
    """Passes the ids of a reply to the library to hold. Returns one of the ids if they can't be held, otherwise 0."""
    id = c_uint64()
    call(_loop_hold, tag, reply, len(reply), asked, asked_ns, ctypes.byref(id))
    return id.value


def socket_path(client: ClientHandle) -> str:
    """Returns the path of the daemon's socket."""
    size = _socket_path(client, None, 0) + 1
    path = ctypes.create_string_buffer(size)
    _socket_path(client, path, size)
    return os.fsdecode(path.value)


def closed() -> Error:
    """Creates the exception for calls on a closed client."""
    return InvalidArgumentError("the client is closed")


def milliseconds(timeout: Optional[float]) -> int:
    """Converts a timeout of a call to the library's milliseconds."""
    return TIMEOUT_DEFAULT if timeout is None else limit_milliseconds(timeout)


def limit_milliseconds(timeout: float) -> int:
    """Converts a client's timeout to the library's milliseconds."""
    return _rounded_up("timeout", timeout, TIMEOUT_MS_MAX)


def wait_milliseconds(wait: float) -> int:
    """Converts the wait for a missing daemon to the library's milliseconds."""
    return _rounded_up("wait", wait, WAIT_MS_MAX)


def _rounded_up(name: str, seconds: float, ms_max: int) -> int:
    try:
        # The comparison is false for NaN.
        valid = seconds >= 0
    except TypeError:
        raise InvalidArgumentError(f"a {name} is a number of seconds, not {seconds!r}") from None
    if not valid:
        raise InvalidArgumentError(f"a {name} is a number of seconds from 0 up, not {seconds!r}")
    return min(-int(-min(seconds, ms_max) * 1000 // 1), ms_max)


def check_count(count: int) -> None:
    """Rejects an invalid count of ids."""
    if not isinstance(count, int):
        raise InvalidArgumentError(f"a count of ids is an int, not {count!r}")
    if not 0 <= count <= COUNT_MAX:
        raise InvalidArgumentError(f"a count of ids is from 0 to {COUNT_MAX}, not {count}")


def name_bytes(tag: str) -> bytes:
    """Converts a tag's name to the library's encoding."""
    if not isinstance(tag, str):
        raise TypeError(f"a tag's name is a str, not {type(tag).__name__}")
    try:
        name = tag.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"{tag!r} is not a valid tag: {error}") from None
    if b"\0" in name:
        raise InvalidArgumentError(f"{tag!r} is not a valid tag: it has a control character")
    return name


def library_version() -> str:
    """Returns the library's release."""
    text: bytes = version()
    return text.decode()



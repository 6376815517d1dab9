"""libleafd.so as Python calls it.

What may wait is called through ``waiting``, which lets other threads run meanwhile. What never waits is called
through ``quick``, which keeps the interpreter's lock: to let go of it would cost more than the call.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_bool, c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any, Optional

from ._errors import BY_STATUS, Error, InternalError, InvalidArgument

ABI_VERSION = 1

TIMEOUT_DEFAULT = 0xFFFF_FFFF
TIMEOUT_MS_MAX = 60_000
UNLEASED = 1
NO_POLLING = 2

_path = str(Path(__file__).with_name("libleafd.so"))
try:
    quick = ctypes.PyDLL(_path)
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


version = _declare(quick.leafd_version, result=c_char_p)
client_new = _declare(quick.leafd_new, c_char_p, c_uint32, c_uint32, POINTER(c_void_p))
tag_new = _declare(quick.leafd_tag_new, c_void_p, c_char_p, c_uint32, POINTER(c_void_p))
connect = _declare(waiting.leafd_connect, c_void_p)
tag_next = _declare(waiting.leafd_tag_next_within, c_void_p, c_uint32, POINTER(c_uint64))
tag_next_many = _declare(waiting.leafd_tag_next_many, c_void_p, c_uint32, POINTER(c_uint64), c_size_t)
next_unleased = _declare(waiting.leafd_next_unleased, c_void_p, c_char_p, c_uint32, POINTER(c_uint64))

_error_message = _declare(quick.leafd_error_message, c_char_p, c_size_t, result=c_size_t)
_error_retry_after_ms = _declare(quick.leafd_error_retry_after_ms)
_error_is_retryable = _declare(quick.leafd_error_is_retryable, result=c_bool)
_error_errno = _declare(quick.leafd_error_errno, result=c_int32)

# Without declared arguments: those are handles of ours, and to have ctypes check them takes half the call.
take = quick.leafd_tag_take
take.restype = c_uint64

_client_free = _declare(quick.leafd_free, c_void_p)
_tag_free = _declare(quick.leafd_tag_free, c_void_p)


class ClientHandle(c_void_p):
    """A client of the library's. It is freed with its last reference: never while a call uses it."""

    def __del__(self, free: Any = _client_free) -> None:
        if self.value:
            free(self)


class TagHandle(c_void_p):
    """A tag of the library's, likewise."""

    def __del__(self, free: Any = _tag_free) -> None:
        if self.value:
            free(self)


def check(status: int) -> None:
    """Raises what the thread's last call came to, unless that was success."""
    if status:
        raise failure(status)


def failure(status: int) -> Error:
    """The exception for the thread's last call that failed."""
    size = _error_message(None, 0) + 1
    text = ctypes.create_string_buffer(size)
    _error_message(text, size)
    retry_after_ms = _error_retry_after_ms()
    return BY_STATUS.get(status, InternalError)(
        text.value.decode("utf-8", "replace"),
        retryable=_error_is_retryable(),
        retry_after=retry_after_ms / 1000 if retry_after_ms else None,
        os_error=_error_errno() or None,
    )


def milliseconds(timeout: Optional[float]) -> int:
    """A timeout as the library takes it."""
    if timeout is None:
        return TIMEOUT_DEFAULT
    # NaN compares false.
    if not timeout >= 0:
        raise InvalidArgument(f"a timeout is a number of seconds from 0 up, not {timeout!r}")
    return min(-int(-min(timeout, TIMEOUT_MS_MAX) * 1000 // 1), TIMEOUT_MS_MAX)


def name_bytes(tag: str) -> bytes:
    """A tag's name as the library takes it."""
    if not isinstance(tag, str):
        raise TypeError(f"a tag's name is a str, not {type(tag).__name__}")
    try:
        name = tag.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"the tag {tag!r} can't be: {error}") from None
    if b"\0" in name:
        raise InvalidArgument(f"the tag {tag!r} can't be: it has a control character")
    return name


def library_version() -> str:
    """The library's release."""
    text: bytes = version()
    return text.decode()



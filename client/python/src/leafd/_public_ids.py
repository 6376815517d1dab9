"""Public ids, which outsiders see instead of dense ids."""

from __future__ import annotations

import ctypes
from array import array
from ctypes import POINTER, c_char_p, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, Awaitable, Callable, Iterable, List, NamedTuple, Optional

from . import _library as library
from . import _protocol as protocol
from ._errors import InvalidArgumentError

_TEXT_BYTES = 64
_NUMBER_MAX = 2**64 - 1


class Form(NamedTuple):
    """The form of public ids: tag, bits, key, and prefix of the text."""

    tag: str
    prefix: str
    bits: int
    key: int

    @classmethod
    def of(cls, tag: str, prefix: str, bits: int, key: int) -> "Form":
        """Rejects values that can't be sent to the daemon. The daemon rejects other invalid values."""
        library.name_bytes(tag)
        if not isinstance(prefix, str) or not prefix.isascii() or "\0" in prefix:
            raise InvalidArgumentError(f"a prefix is a str of letters, digits and _, not {prefix!r}")
        if not isinstance(bits, int) or not 1 <= bits <= 255:
            raise InvalidArgumentError(f"the bits of public ids are a number from 20 to 63, not {bits!r}")
        if not isinstance(key, int) or not 0 <= key <= 255:
            raise InvalidArgumentError(f"a key is a number from 1 to 31, or 0 for the current one, not {key!r}")
        return cls(tag, prefix, bits, key)

    def __str__(self) -> str:
        prefix = f" prefix={self.prefix!r}" if self.prefix else ""
        key = f" key={self.key}" if self.key else ""
        return f"tag={self.tag!r}{prefix} bits={self.bits}{key}"


def numbers_of(ids: Iterable[int]) -> "array[int]":
    """Converts ids to the library's type."""
    try:
        return ids if isinstance(ids, array) and ids.typecode == "Q" else array("Q", ids)
    except (TypeError, OverflowError):
        raise InvalidArgumentError(f"ids must be a list or other iterable of ints from 1 to {_NUMBER_MAX}, not {ids!r}") from None


def bytes_of(texts: Iterable[str]) -> List[bytes]:
    """Converts texts to the library's type. Invalid characters become a `?`, which the daemon rejects as well."""
    if isinstance(texts, (str, bytes)):
        raise InvalidArgumentError(f"texts must be a list or other iterable of str; for a single text, use [{texts!r}]")
    try:
        return [text.encode("ascii", "replace").replace(b"\0", b"?") for text in texts]
    except (AttributeError, TypeError):
        raise InvalidArgumentError(f"texts must be a list or other iterable of str, not {texts!r}") from None


class _Form(ctypes.Structure):
    _fields_ = [("bits", c_uint32), ("key", c_uint32), ("prefix", c_char_p)]


_NUMBERS = POINTER(c_uint64)
_mask = library.Waiting(
    "leafd_mask", c_void_p, c_char_p, POINTER(_Form), c_uint32, _NUMBERS, _NUMBERS, c_size_t
)
_unmask = library.Waiting(
    "leafd_unmask", c_void_p, c_char_p, POINTER(_Form), c_uint32, _NUMBERS, _NUMBERS, c_size_t
)
_mask_text = library.Waiting(
    "leafd_mask_text", c_void_p, c_char_p, POINTER(_Form), c_uint32, _NUMBERS, c_void_p, c_size_t
)
_unmask_text = library.Waiting(
    "leafd_unmask_text", c_void_p, c_char_p, POINTER(_Form), c_uint32, POINTER(c_char_p), _NUMBERS, c_size_t
)


class PublicIds:
    """Converts ids of one tag to public ids of one form and back; created by :meth:`leafd.Client.public_ids`.

    A call converts many ids, with one request for every 240, and returns them in the same order. `timeout` applies to
    the whole call, in seconds; by default it is the client's.

    Calls may raise :class:`leafd.InvalidArgumentError` for an id that doesn't have this form,
    :class:`leafd.DeniedError` if the user may not mask and unmask, and :class:`leafd.MaskKeyError` if the daemon
    doesn't have the key or has a different one.
    """

    __slots__ = ("_form", "_handle", "_socket")

    def __init__(self, handle: Callable[[], library.ClientHandle], socket: str, form: Form) -> None:
        self._handle = handle
        self._socket = socket
        self._form = form

    def mask(self, ids: Iterable[int], timeout: Optional[float] = None) -> List[int]:
        """Returns the public ids of dense ids, as numbers.

        Numbers don't contain the number of their key. Once another key is in use, they are converted back to the wrong
        ids unless `key` names the old key.
        """
        return self._numbers(_mask, numbers_of(ids), timeout)

    def unmask(self, ids: Iterable[int], timeout: Optional[float] = None) -> List[int]:
        """Returns the dense ids of public ids given as numbers."""
        return self._numbers(_unmask, numbers_of(ids), timeout)

    def mask_text(self, ids: Iterable[int], timeout: Optional[float] = None) -> List[str]:
        """Returns the public ids of dense ids, as text such as `ord_16dsky4r4xzza8d`."""
        dense = numbers_of(ids)
        texts = ((ctypes.c_char * _TEXT_BYTES) * len(dense))()
        self._call(_mask_text, timeout, _places(dense), texts, len(dense))
        return [text.value.decode() for text in texts]

    def unmask_text(self, texts: Iterable[str], timeout: Optional[float] = None) -> List[int]:
        """Returns the dense ids of public ids given as text. :class:`leafd.InvalidArgumentError` names the first
        invalid one."""
        shown = bytes_of(texts)
        dense = array("Q", bytes(8 * len(shown)))
        self._call(_unmask_text, timeout, (c_char_p * len(shown))(*shown), _places(dense), len(shown))
        return dense.tolist()

    def _numbers(self, function: library.Waiting, ids: "array[int]", timeout: Optional[float]) -> List[int]:
        answer = array("Q", bytes(8 * len(ids)))
        self._call(function, timeout, _places(ids), _places(answer), len(ids))
        return answer.tolist()

    def _call(self, function: library.Waiting, timeout: Optional[float], *items: Any) -> None:
        form = _Form(self._form.bits, self._form.key, self._form.prefix.encode())
        limit = library.milliseconds(timeout)
        function(self._handle(), self._form.tag.encode(), ctypes.byref(form), limit, *items)

    def __repr__(self) -> str:
        return f"<leafd.PublicIds {self._form} socket={self._socket!r}>"


def _places(numbers: "array[int]") -> "ctypes.Array[c_uint64]":
    return (c_uint64 * len(numbers)).from_buffer(numbers)


class AsyncPublicIds:
    """:class:`leafd.PublicIds` for asyncio; created by :meth:`leafd.AsyncClient.public_ids`."""

    __slots__ = ("_ask", "_form", "_socket")

    def __init__(self, ask: Callable[..., Awaitable[List[bytes]]], socket: str, form: Form) -> None:
        self._ask = ask
        self._socket = socket
        self._form = form

    async def mask(self, ids: Iterable[int], timeout: Optional[float] = None) -> List[int]:
        """Same as :meth:`leafd.PublicIds.mask`."""
        return await self._numbers(protocol.MASK, numbers_of(ids), timeout)

    async def unmask(self, ids: Iterable[int], timeout: Optional[float] = None) -> List[int]:
        """Same as :meth:`leafd.PublicIds.unmask`."""
        return await self._numbers(protocol.UNMASK, numbers_of(ids), timeout)

    async def mask_text(self, ids: Iterable[int], timeout: Optional[float] = None) -> List[str]:
        """Same as :meth:`leafd.PublicIds.mask_text`."""
        items = [id.to_bytes(8, "little") for id in numbers_of(ids)]
        return [text.decode() for text in await self._ask(protocol.MASK, self._form, True, items, timeout)]

    async def unmask_text(self, texts: Iterable[str], timeout: Optional[float] = None) -> List[int]:
        """Same as :meth:`leafd.PublicIds.unmask_text`."""
        items = [bytes([min(len(text), 255)]) + text[:255] for text in bytes_of(texts)]
        return _numbers_of(await self._ask(protocol.UNMASK, self._form, True, items, timeout))

    async def _numbers(self, opcode: int, ids: "array[int]", timeout: Optional[float]) -> List[int]:
        items = [id.to_bytes(8, "little") for id in ids]
        return _numbers_of(await self._ask(opcode, self._form, False, items, timeout))

    def __repr__(self) -> str:
        return f"<leafd.AsyncPublicIds {self._form} socket={self._socket!r}>"


def _numbers_of(items: List[bytes]) -> List[int]:
    if any(len(item) != 8 for item in items):
        raise protocol.broken("a reply contains items that are not ids")
    return [int.from_bytes(item, "little") for item in items]

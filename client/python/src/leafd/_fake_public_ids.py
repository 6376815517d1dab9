"""Public ids without a daemon, for tests. They are like the real ones, except for the cipher."""

from __future__ import annotations

import re
from typing import Callable, Iterable, List, Optional

from ._errors import InvalidArgumentError, MaskKeyError, Status
from ._public_ids import Form, bytes_of, numbers_of

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_PREFIX = re.compile(r"(?:[a-z]|[a-z][a-z0-9_]{,30}[a-z0-9])?")
_KEY = 1


class FakePublicIds:
    """The :class:`leafd.PublicIds` of a fake: the public id of the dense id `n` is `2**bits - n`."""

    def __init__(self, begin: Callable[[str, str, int, Optional[float]], None], form: Form) -> None:
        self._begin = begin
        self._form = form

    def mask(self, ids: Iterable[int], timeout: Optional[float] = None) -> List[int]:
        """Same as :meth:`leafd.PublicIds.mask`."""
        return self._numbers("mask", ids, timeout)

    def unmask(self, ids: Iterable[int], timeout: Optional[float] = None) -> List[int]:
        """Same as :meth:`leafd.PublicIds.unmask`."""
        return self._numbers("unmask", ids, timeout)

    def mask_text(self, ids: Iterable[int], timeout: Optional[float] = None) -> List[str]:
        """Same as :meth:`leafd.PublicIds.mask_text`."""
        public = self._numbers("mask_text", ids, timeout)
        start = f"{self._form.prefix}_" if self._form.prefix else ""
        return [start + _with_check(_KEY << 5 * self._digits() | id, 1 + self._digits()) for id in public]

    def unmask_text(self, texts: Iterable[str], timeout: Optional[float] = None) -> List[int]:
        """Same as :meth:`leafd.PublicIds.unmask_text`."""
        shown = [text.decode() for text in bytes_of(texts)]
        self._start("unmask_text", len(shown), timeout)
        return self._mirrored([self._read(text) for text in shown])

    def _numbers(self, method: str, ids: Iterable[int], timeout: Optional[float]) -> List[int]:
        numbers = list(numbers_of(ids))
        self._start(method, len(numbers), timeout)
        if self._form.key not in (0, _KEY):
            raise MaskKeyError(f"leafd answered MASK_KEY: this fake has no mask key {self._form.key}")
        return self._mirrored(numbers)

    def _start(self, method: str, count: int, timeout: Optional[float]) -> None:
        self._begin(method, self._form.tag, count, timeout)
        if not 20 <= self._form.bits <= 63:
            raise _refused(f"public ids have 20 to 63 bits, not {self._form.bits}")
        if not _PREFIX.fullmatch(self._form.prefix):
            raise _refused(f"{self._form.prefix!r} is not a valid prefix")

    def _mirrored(self, ids: List[int]) -> List[int]:
        end = 1 << self._form.bits
        for id in ids:
            if not 0 < id < end:
                raise _refused(f"{id} is not an id of {self._form.bits} bits")
        return [end - id for id in ids]

    def _digits(self) -> int:
        return -(-self._form.bits // 5)

    def _read(self, text: str) -> int:
        start = f"{self._form.prefix}_" if self._form.prefix else ""
        rest = text[len(start) :].lower().replace("o", "0").replace("i", "1").replace("l", "1")
        why = None
        if not text.startswith(start):
            why = "it doesn't begin with the requested prefix"
        elif len(rest) != self._digits() + 2:
            why = f"it is not as long as an id of {self._form.bits} bits"
        elif any(digit not in _DIGITS for digit in rest):
            why = "it has a character that is not a base-32 digit"
        else:
            value = 0
            for digit in rest[:-1]:
                value = value << 5 | _DIGITS.index(digit)
            key, id = value >> 5 * self._digits(), value & (1 << 5 * self._digits()) - 1
            if _with_check(value, 1 + self._digits()) != rest:
                why = "its check character is wrong: it was mistyped"
            elif key != _KEY:
                why = f"it names mask key {key}, which this fake doesn't have"
            else:
                return id
        raise _refused(f"{text!r} is not a public id of tag {self._form.tag!r}: {why}")


class FakeAsyncPublicIds:
    """The :class:`leafd.AsyncPublicIds` of a fake: an awaitable :class:`FakePublicIds`."""

    def __init__(self, fake: FakePublicIds) -> None:
        self._fake = fake

    async def mask(self, ids: Iterable[int], timeout: Optional[float] = None) -> List[int]:
        """Same as :meth:`leafd.AsyncPublicIds.mask`."""
        return self._fake.mask(ids, timeout)

    async def unmask(self, ids: Iterable[int], timeout: Optional[float] = None) -> List[int]:
        """Same as :meth:`leafd.AsyncPublicIds.unmask`."""
        return self._fake.unmask(ids, timeout)

    async def mask_text(self, ids: Iterable[int], timeout: Optional[float] = None) -> List[str]:
        """Same as :meth:`leafd.AsyncPublicIds.mask_text`."""
        return self._fake.mask_text(ids, timeout)

    async def unmask_text(self, texts: Iterable[str], timeout: Optional[float] = None) -> List[int]:
        """Same as :meth:`leafd.AsyncPublicIds.unmask_text`."""
        return self._fake.unmask_text(texts, timeout)


def _refused(why: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"leafd answered VALUE_REFUSED: {why}", status=Status.VALUE_REFUSED)


def _with_check(value: int, digits: int) -> str:
    """Writes a number with this many digits and the check character, as the daemon does."""
    text, check = "", 0
    for place in reversed(range(digits)):
        digit = value >> 5 * place & 31
        text += _DIGITS[digit]
        check = _doubled(check) ^ digit
    return text + _DIGITS[_doubled(check)]


def _doubled(element: int) -> int:
    """Doubles an element of GF(32), modulo x^5 + x^2 + 1."""
    return element << 1 if element < 16 else element << 1 ^ 0b10_0101

"""Decoding snowflake ids."""

from __future__ import annotations

import ctypes
import datetime
from typing import NamedTuple

from . import _library as library
from ._errors import InvalidArgumentError


class _Layout(ctypes.Structure):
    _fields_ = [
        ("time_bits", ctypes.c_uint8),
        ("worker_bits", ctypes.c_uint8),
        ("sequence_bits", ctypes.c_uint8),
        ("tick_ms", ctypes.c_uint32),
        ("epoch_ms", ctypes.c_uint64),
    ]


class _Parts(ctypes.Structure):
    _fields_ = [
        ("tick", ctypes.c_uint64),
        ("worker", ctypes.c_uint64),
        ("sequence", ctypes.c_uint64),
        ("unix_ms", ctypes.c_uint64),
    ]


_leaf = library.quick.leafd_layout_leaf
_leaf.argtypes = []
_leaf.restype = _Layout
_decode = library.quick.leafd_decode
_decode.argtypes = [ctypes.c_uint64, ctypes.POINTER(_Layout), ctypes.POINTER(_Parts), ctypes.c_void_p]
_layout_of = library.Waiting(
    "leafd_layout_of", ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint32, ctypes.POINTER(_Layout)
)


_UNIX_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


class Info(NamedTuple):
    """What the daemon reports about itself."""

    release: str
    """The daemon's release, such as `0.1.0`."""
    segments_ready: bool
    """Whether ids of segment tags are available now."""
    snowflake_ready: bool
    """Whether snowflake ids are available now."""
    pid: int
    """The daemon's process id, in its own process namespace."""


class Layout(NamedTuple):
    """How snowflake ids are composed: a sign bit of 0, then time, worker and sequence."""

    time_bits: int
    """Bits of the time field, from 1."""
    worker_bits: int
    """Bits of the worker field, from 0."""
    sequence_bits: int
    """Bits of the sequence field, from 1. All three fields together have at most 63 bits."""
    tick_ms: int
    """Length of a tick in milliseconds, 1 to 3,600,000."""
    epoch_ms: int
    """The epoch, at which tick 0 starts, in milliseconds of Unix time."""


class Decoded(NamedTuple):
    """The parts of a snowflake id."""

    tick: int
    """Ticks since the layout's epoch."""
    worker: int
    """The worker that issued the id."""
    sequence: int
    """The id's sequence number within its tick and worker."""
    unix_ms: int
    """The start of the id's tick, in milliseconds of Unix time."""

    @property
    def time(self) -> datetime.datetime:
        """The start of the id's tick, in UTC."""
        return _UNIX_EPOCH + datetime.timedelta(milliseconds=self.unix_ms)

    @property
    def local_time(self) -> datetime.datetime:
        """The start of the id's tick, as an aware datetime in this machine's time zone."""
        return self.time.astimezone()


def _from_c(layout: _Layout) -> Layout:
    return Layout(layout.time_bits, layout.worker_bits, layout.sequence_bits, layout.tick_ms, layout.epoch_ms)


LEAF = _from_c(_leaf())
"""Leaf's own layout, which is the daemon's `snowflake` unless configured otherwise."""


def decode(id: int, layout: Layout = LEAF) -> Decoded:
    """Decodes a snowflake id by its layout (see :meth:`leafd.Client.layout`).

    Raises :class:`leafd.InvalidArgumentError` for an invalid id or layout.
    """
    if not isinstance(id, int) or not 0 < id < 1 << 63:
        raise InvalidArgumentError(f"{id!r} is not an id: ids are from 1 to 2^63-1")
    limits = (255, 255, 255, 0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF)
    if not all(0 <= value <= limit for value, limit in zip(layout, limits)):
        raise InvalidArgumentError(f"the layout is not valid: {layout}")
    parts = _Parts()
    library.call(_decode, id, ctypes.byref(_Layout(*layout)), ctypes.byref(parts))
    return Decoded(parts.tick, parts.worker, parts.sequence, parts.unix_ms)


def first_id_at(when: datetime.datetime, layout: Layout = LEAF) -> int:
    """Returns the smallest id that a layout can have at a given time, as a bound for queries by time.

    ``WHERE id >= first_id_at(begin) AND id < first_id_at(end)`` finds the rows whose ids were drawn from `begin`
    (inclusive) to `end` (exclusive), to the tick. `when`: an aware datetime; a naive one counts as local time.

    Raises :class:`leafd.InvalidArgumentError` for a time at which the layout has no ids.
    """
    if not isinstance(when, datetime.datetime):
        raise InvalidArgumentError(f"a moment is a datetime, not {when!r}")
    # A naive datetime counts as local time; subtracting it from an aware one would fail.
    since = (when if when.utcoffset() is not None else when.astimezone()) - _UNIX_EPOCH
    # Whole microseconds, because a float would be imprecise.
    unix_us = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    tick = (unix_us - layout.epoch_ms * 1000) // (layout.tick_ms * 1000)
    if not 0 <= tick < 1 << layout.time_bits:
        raise InvalidArgumentError(f"the layout has no ids at {when.isoformat()}: they {_range(layout)}")
    return tick << (layout.worker_bits + layout.sequence_bits)


def _range(layout: Layout) -> str:
    """Describes the time span of a layout's ids. Its end may be later than any datetime."""
    words = [f"begin at {_moment(layout.epoch_ms)}"]
    try:
        words.append(f"end before {_moment(layout.epoch_ms + (layout.tick_ms << layout.time_bits))}")
    except OverflowError:
        pass
    return " and ".join(words)


def _moment(unix_ms: int) -> str:
    return (_UNIX_EPOCH + datetime.timedelta(milliseconds=unix_ms)).isoformat()


def layout_of(client: library.ClientHandle, name: str) -> Layout:
    """Asks the daemon for a layout."""
    layout = _Layout()
    _layout_of(client, library.name_bytes(name), library.TIMEOUT_DEFAULT, ctypes.byref(layout))
    return _from_c(layout)

"""The part of leafd's protocol that event loops use: encodes requests and decodes replies, without I/O.

It doesn't decode replies with runs to hold, which go to the library as received.
"""

from __future__ import annotations

import errno as numbers
import os
import struct
from typing import Dict, List, NamedTuple, Optional, Tuple

from ._errors import BY_STATUS, DisconnectedError, Error, ProtocolError, Status, TimeoutError, error_of
from ._layout import Info, Layout

INFO, IDS, MASK, UNMASK, SERIES_NEXT = 1, 2, 4, 5, 8
REPLY = 128
HOLD = 1
TEXT = 2
VERSION = 1
COUNT_MAX = 1_000_000
NUMBERS_MAX = 1_000
REPLY_LENGTH_MAX = 1_048_576
ID_MAX = 2**63 - 1

RETRYABLE = {
    Status.OVERLOADED,
    Status.DEADLINE,
    Status.STORE_UNAVAILABLE,
    Status.CLOCK_BEHIND,
    Status.NO_WORKER,
    Status.JOURNAL,
    Status.SHUTTING_DOWN,
    Status.CONNECTION_LIMIT,
}
CLOSING = {Status.VERSION, Status.FRAME_LENGTH, Status.SHUTTING_DOWN, Status.CONNECTION_LIMIT}

HEADER = struct.Struct("<IBBHI")
_IDS_REQUEST = struct.Struct("<IBBHIIIH")
_INFO_REQUEST = struct.Struct("<IBBHIHH")
_MASK_REQUEST = struct.Struct("<IBBHIBBHHH")
_MASK_REPLY = struct.Struct("<HH")
_RUNS_HEAD = struct.Struct("<IHH")
_RUN = struct.Struct("<QII")
_INFO = struct.Struct("<HHIIIII")
_SHORT = struct.Struct("<H")
_LAYOUT = struct.Struct("<BBBBIQ")


class InfoReply(NamedTuple):
    """The parts of the reply to INFO that a client needs."""

    version: int
    info: Info
    layouts: Dict[str, Layout]


def ids_request(request: int, tag: bytes, count: int, deadline_ms: int, hold: bool) -> bytes:
    """Encodes an IDS request."""
    length = 18 + len(tag)
    return _IDS_REQUEST.pack(length, IDS, HOLD if hold else 0, 0, request, count, deadline_ms, len(tag)) + tag


def info_request(request: int) -> bytes:
    """Encodes an INFO request."""
    return _INFO_REQUEST.pack(12, INFO, 0, 0, request, VERSION, VERSION)


def mask_request(
    request: int, opcode: int, tag: bytes, prefix: Optional[bytes], bits: int, key: int, items: List[bytes]
) -> bytes:
    """Encodes a MASK or UNMASK request. `prefix`: None for numbers."""
    names, flags = tag + (prefix or b""), 0 if prefix is None else TEXT
    body = names + b"".join(items)
    counts = bits, key, len(items), len(tag), len(prefix or b"")
    return _MASK_REQUEST.pack(16 + len(body), opcode, flags, 0, request, *counts) + body


def masked_of(body: bytes, count: int) -> List[bytes]:
    """Decodes the items in a reply to a MASK or UNMASK request for `count` of them."""
    if len(body) < _MASK_REPLY.size:
        raise broken("a reply ends too early")
    answered, length = _MASK_REPLY.unpack_from(body)
    if not length or answered != count or len(body) != _MASK_REPLY.size + count * length:
        raise broken("a reply doesn't contain the public ids that were requested")
    return [body[at : at + length] for at in range(_MASK_REPLY.size, len(body), length)]


def series_request(request: int, series: bytes, tenant: bytes, count: int, deadline_ms: int) -> bytes:
    """Encodes a SERIES_NEXT request."""
    name = series + b"/" + tenant if tenant else series
    return _IDS_REQUEST.pack(18 + len(name), SERIES_NEXT, 0, 0, request, count, deadline_ms, len(name)) + name


def numbers_of(body: bytes, count: int) -> List[str]:
    """Decodes the texts in a reply to a request for `count` document numbers."""
    numbers = body.decode("ascii", "replace").split("\n")
    if len(numbers) != count or "" in numbers:
        raise broken("a reply doesn't contain the document numbers that were requested")
    return numbers


def ids_of(body: bytes, count: int) -> List[range]:
    """Decodes the ids in a reply to a request for `count` of them."""
    if len(body) < _RUNS_HEAD.size:
        raise broken("a reply ends too early")
    _, runs, _ = _RUNS_HEAD.unpack_from(body)
    if len(body) != _RUNS_HEAD.size + runs * _RUN.size:
        raise broken("a reply's length doesn't match its runs")
    ranges = []
    for first, length, stride in _RUN.iter_unpack(body[_RUNS_HEAD.size :]):
        if not (first and length and stride) or first + (length - 1) * stride > ID_MAX:
            raise broken("a run of a reply is not valid")
        ranges.append(range(first, first + length * stride, stride))
        count -= length
    if count:
        raise broken("a reply doesn't have the number of ids that was requested")
    return ranges


def info_of(body: bytes) -> InfoReply:
    """Decodes the reply to INFO. Rejects another protocol version."""
    try:
        version, ready, _, _, _, _, pid = _INFO.unpack_from(body)
        release, at = _text(body, _INFO.size)
        layouts: Dict[str, Layout] = {}
        (how_many,) = _SHORT.unpack_from(body, at)
        at += _SHORT.size
        for _ in range(how_many):
            name, at = _text(body, at)
            time_bits, worker_bits, sequence_bits, _, tick_ms, epoch_ms = _LAYOUT.unpack_from(body, at)
            layouts[name] = Layout(time_bits, worker_bits, sequence_bits, tick_ms, epoch_ms)
            at += _LAYOUT.size
    except (struct.error, UnicodeDecodeError):
        raise broken("the answer to INFO can't be decoded") from None
    if version != VERSION:
        raise broken(
            f"leafd {release} chose protocol version {version}, but this client offered only version {VERSION}"
        )
    return InfoReply(version, Info(release, bool(ready & 1), bool(ready & 2), pid), layouts)


def _text(body: bytes, at: int) -> Tuple[str, int]:
    (length,) = _SHORT.unpack_from(body, at)
    start = at + _SHORT.size
    if len(body) < start + length:
        raise struct.error("too short")
    return body[start : start + length].decode(), start + length


# === errors, worded as in the library ===


def refusal(status: int, body: bytes) -> Error:
    """Creates the exception for a reply with an error."""
    if len(body) < 4:
        return broken("a reply ends too early")
    retry_after_ms = int.from_bytes(body[:4], "little")
    # Numbers from CONNECT on are this package's own, so no daemon sends them.
    known = Status(status) if status < Status.CONNECT and status in BY_STATUS else Status.INTERNAL
    text = f"leafd answered {known.name}"
    if known != status:
        text += f" (status {status}, unknown to this client)"
    message = body[4:].decode("utf-8", "replace")
    if message:
        text += f": {message}"
    if retry_after_ms:
        text += f" (a retry may succeed in {retry_after_ms} ms)"
    retry_after = retry_after_ms / 1000 if retry_after_ms else None
    return error_of(known, text, retryable=known in RETRYABLE, retry_after=retry_after)


def broken(what: str) -> Error:
    """Creates the exception for a peer that violates the protocol."""
    return ProtocolError(
        f"the peer broke leafd's protocol: {what}; check that the socket is leafd's and that client and daemon have matching versions"
    )


def unreachable(path: str, error: OSError) -> Error:
    """Creates the exception for a failed connection attempt."""
    number = error.errno
    denied = number in (numbers.EACCES, numbers.EPERM)
    if denied:
        hint = (
            "this user may not open the socket or enter its folder. The socket's group and mode decide that; they come "
            "from systemd's unit leafd.socket, or from the daemon's settings socket_group and socket_mode"
        )
    elif number in (numbers.ENOENT, numbers.ECONNREFUSED):
        named = "names this path" if os.environ.get("LEAFD_SOCKET") == path else "can name another path"
        hint = (
            "is the daemon running, and is this its socket? `systemctl status leafd` shows the state of the system's "
            f"daemon; LEAFD_SOCKET {named}"
        )
    else:
        hint = "check the daemon's log"
    said = f"{os.strerror(number)} (os error {number})" if number else str(error)
    text = f"can't connect to leafd at {path}: {said}; {hint}"
    return error_of(Status.CONNECT, text, retryable=not denied and number is not None, errno=number)


def disconnected(path: str, why: str) -> Error:
    """Creates the exception for a broken connection."""
    return DisconnectedError(
        f"the connection to leafd at {path} broke before the answer came: {why}; "
        "the daemon may be restarting, check its log",
        retryable=True,
    )


def timed_out(waited: float) -> Error:
    """Creates the exception for a call without an answer in time."""
    return TimeoutError(
        f"leafd did not answer within {waited * 1000:.0f} ms; retry, allow a longer deadline, or check `systemctl status leafd`",
        retryable=True,
    )

"""Unique 64-bit ids from leafd, the id daemon on this host.

    import leafd

    with leafd.Client() as client:
        order_id = client.next_id("orders")
        hundred = client.next_ids("orders", 100)

Threads and forked children can share a client: a forked child never gets an id that its parent held.

- :class:`Client` and :class:`AsyncClient` draw ids. :class:`IdSource` and :class:`AsyncIdSource` are the types that they
  share with their fakes in :mod:`leafd.testing`.
- :func:`decode` decodes a snowflake id, and :func:`first_id_at` returns the smallest id at a given time.
- Every exception is a :class:`leafd.Error`, with details in `retryable`, `retry_after`, `is_timeout` and `status`.
"""

from ._aio import AsyncClient
from ._client import Client
from ._errors import (
    ConnectDeniedError,
    ConnectError,
    DeniedError,
    DisconnectedError,
    Error,
    ExhaustedError,
    InternalError,
    InterruptedError,
    InvalidArgumentError,
    MaskKeyError,
    ProtocolError,
    ResourceError,
    Status,
    StoreError,
    TimeoutError,
    UnavailableError,
    UnknownTagError,
)
from ._layout import LEAF, Decoded, Info, Layout, decode, first_id_at
from ._library import library_version
from ._public_ids import AsyncPublicIds, PublicIds
from ._sources import AsyncIdSource, AsyncPublicIdSource, IdSource, PublicIdSource

# PEP 440 spells 1.0.0-rc.1 as 1.0.0rc1.
__version__ = library_version().replace("-rc.", "rc")

__all__ = [
    "LEAF",
    "AsyncClient",
    "AsyncIdSource",
    "AsyncPublicIdSource",
    "AsyncPublicIds",
    "Client",
    "ConnectDeniedError",
    "ConnectError",
    "Decoded",
    "DeniedError",
    "DisconnectedError",
    "Error",
    "ExhaustedError",
    "IdSource",
    "Info",
    "InternalError",
    "InterruptedError",
    "InvalidArgumentError",
    "Layout",
    "MaskKeyError",
    "ProtocolError",
    "PublicIdSource",
    "PublicIds",
    "ResourceError",
    "Status",
    "StoreError",
    "TimeoutError",
    "UnavailableError",
    "UnknownTagError",
    "decode",
    "first_id_at",
]

# Tracebacks and help() show the names under which these objects are imported.
for _name in __all__:
    _public = globals()[_name]
    if hasattr(_public, "__qualname__"):
        _public.__module__ = __name__
del _name, _public

"""What an event loop asks of a run that the user's processes share: its memory goes to the library, which draws from it."""

from __future__ import annotations

import asyncio
from typing import List

from . import _library as library
from . import _protocol as protocol
from ._connection import Answer, Connection, Request, close, give
from ._errors import Error, Status

PAUSE = 0.001
"""Before the daemon is asked again whose ids others have taken, in seconds."""

UNKNOWN_MS = 60_000
"""A daemon that doesn't know shared runs is asked again after this, in milliseconds, and one whose memory the system keeps
back, as from a process that may open no further file."""

_PAGES = 2


class Sharing(Request):
    """A request for a shared run or for more of it. The library takes its answer in, whoever still waits for it."""

    __slots__ = ("connection",)

    def __init__(self, connection: Connection, future: "asyncio.Future[Answer]", tag: library.TagHandle) -> None:
        super().__init__(protocol.SHARE, future, tag)
        self.connection = connection

    def answer(self, status: int, body: bytes) -> None:
        """Draws from what it brought from now on."""
        if status == Status.UNKNOWN_OPCODE:
            status, body = 0, protocol.not_shared(UNKNOWN_MS)
        if status:
            super().answer(status, body)
            return
        assert self.tag is not None
        came: List[int] = []
        if protocol.brings_pages(body) and self.connection.descriptors:
            came = self.connection.descriptors.pop(0)
            if len(came) != _PAGES:
                close(came)
                came, body = [], protocol.not_shared(UNKNOWN_MS)
        try:
            library.share(self.tag, body, came, self.asked_ns)
        except Error as error:
            if error.status is Status.PROTOCOL:
                raise
            # Memory is lacking: that concerns this tag alone.
            if not self.future.done():
                self.future.set_exception(error)
        finally:
            close(came)
        give(self.future, 0)

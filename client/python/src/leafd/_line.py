"""A connection's socket where memory comes along with answers, which the loop's own transports would drop."""

from __future__ import annotations

import array
import asyncio
import socket
from typing import Optional, Union

from ._connection import Connection

READ_BYTES_MAX = 65_536
"""What is read at a time."""

ROOM = socket.CMSG_SPACE(2 * array.array("i").itemsize)
"""Room for the descriptors that come with one answer."""


class Line(asyncio.Transport):
    """What of a transport a connection uses, with descriptors put where the connection looks for them."""

    def __init__(self, line: socket.socket, loop: asyncio.AbstractEventLoop, connection: Connection) -> None:
        super().__init__()
        self._socket = line
        self._loop = loop
        self._connection = connection
        self._unsent = b""
        self._ended = False
        loop.add_reader(line, self._read)

    def write(self, data: Union[bytes, bytearray, "memoryview[int]"]) -> None:
        """Sends, now or as soon as there is room."""
        if self._ended:
            return
        self._unsent += data
        if len(self._unsent) == len(data):
            self._send()
            if self._unsent and not self._ended:
                self._loop.add_writer(self._socket, self._send)

    def abort(self) -> None:
        """Lets go of the socket."""
        if self._ended:
            return
        self._ended = True
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()

    def _send(self) -> None:
        try:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except (BlockingIOError, InterruptedError):
            return
        except (BrokenPipeError, ConnectionResetError):
            # What the daemon said before it went is still to be read, and then the end.
            self._unsent = b""
        except OSError as error:
            self.abort()
            self._loop.call_soon(self._connection.connection_lost, error)
            return
        if not self._unsent:
            self._loop.remove_writer(self._socket)

    def _read(self) -> None:
        lost: Optional[OSError] = None
        try:
            data, along, flags, _ = self._socket.recvmsg(READ_BYTES_MAX, ROOM, socket.MSG_CMSG_CLOEXEC)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            data, along, flags, lost = b"", [], 0, error
        numbers = array.array("i")
        for level, kind, content in along:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                numbers.frombytes(content[: len(content) - len(content) % numbers.itemsize])
        if numbers or flags & socket.MSG_CTRUNC:
            # The kernel brings those of one answer at a time.
            self._connection.descriptors.append(list(numbers))
        if data:
            self._connection.data_received(data)
        else:
            self.abort()
            self._connection.connection_lost(lost)

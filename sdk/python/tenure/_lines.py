"""A connection, as lines."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._host import Host


class Lines(asyncio.Protocol):
    """The lines of one connection of a host."""

    def __init__(self, host: Host):
        self._host = host
        self._rest = b""
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._host._connected(transport)

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._host._hear(json.loads(line))

    def connection_lost(self, error: Exception | None) -> None:
        self._host._disconnected(self._transport)

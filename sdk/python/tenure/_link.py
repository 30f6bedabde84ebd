"""One connection: its lines, and its open requests."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import TYPE_CHECKING, Any

from ._errors import Fenced, RequestError
from ._wire import pack

if TYPE_CHECKING:
    from ._host import Host
    from ._job import Job

#: How many requests may be open.
_REQUESTS = 256
#: How many bytes may wait for a node that does not read. More end the connection.
_UNSENT_MAX = 64 << 20


class Link(asyncio.Protocol):
    """One connection of a host."""

    def __init__(self, host: Host):
        self._host = host
        self._rest = b""
        self._transport: Any = None
        self._is_over = False
        self._requests: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._rid = 0
        self._free = _REQUESTS
        self._waiting: deque[asyncio.Future[None]] = deque()
        #: The longest state of a job. None: the node does not say.
        self.checkpoint_max: int | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._host._connected(self)

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if not self._is_over:
                self._host._hear(json.loads(line))

    def connection_lost(self, error: Exception | None) -> None:
        self._host._disconnected(self)

    def send(self, message: dict[str, Any]) -> None:
        """Says this. It waits for nobody, and after the end of the connection nobody hears it."""
        line = pack(message)
        if self._is_over or self._transport.is_closing():
            return
        self._transport.write(line)
        if self._transport.get_write_buffer_size() > _UNSENT_MAX:
            self._transport.abort()

    def close(self) -> None:
        """Ends the connection, and fails its open requests."""
        self._is_over = True
        if self._transport is not None:
            # The node may read nothing, so this waits for no word.
            self._transport.abort()
        for request in [*self._requests.values(), *self._waiting]:
            if not request.done():
                request.set_exception(lost())
        self._requests.clear()
        self._waiting.clear()

    async def request(self, message: dict[str, Any], job: Job | None = None) -> dict[str, Any]:
        """Makes a request, and returns its answer. One of a job raises Fenced once the job is over."""
        _still(job)
        await self._place()
        self._rid += 1
        rid = self._rid
        done: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        try:
            # It may have ended meanwhile.
            _still(job)
            if self._is_over or self._transport.is_closing():
                raise lost()
            self.send({**message, "rid": rid})
        except BaseException:
            self._leave_place()
            raise
        # It is open until it is answered, though nobody may wait for that any more.
        self._requests[rid] = done
        return await done

    async def _place(self) -> None:
        """Waits until another request may be open."""
        if self._free > 0:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._leave_place()
            raise

    def _leave_place(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def answered(self, message: dict[str, Any]) -> None:
        """Gives a request its answer, if somebody waits for it."""
        request = self._requests.pop(message["rid"], None)
        if request is None:
            return
        self._leave_place()
        if request.done():
            return
        if message["op"] == "ok":
            request.set_result(message)
            return
        kind = Fenced if message["code"] == "fenced" else RequestError
        request.set_exception(kind(message["code"], message["text"]))


def _still(job: Job | None) -> None:
    if job is not None and job._over:
        raise Fenced("fenced", "the job is over")


def lost() -> RequestError:
    """The error of a request that the end of the connection has overtaken."""
    return RequestError("failed", "the connection has ended")

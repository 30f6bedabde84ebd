"""A job in a handler's hands."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Any, AsyncIterator, Callable

from ._errors import LeaseLost, RequestError
from ._wire import data, millis, put, take

if TYPE_CHECKING:
    from ._link import Link


class Lease:
    """The lease under which jobs run, by this machine's monotonic clock."""

    def __init__(self, number: int, over: Callable[[Lease], Any]):
        self.number = number
        self._over = over
        self.jobs: set[Job] = set()
        self.until = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def left(self) -> float:
        """How many seconds it lasts without another renewal."""
        return max(0.0, self.until - time.monotonic())

    def check(self) -> None:
        """Raises LeaseLost once it is over. Call it before an effect on a resource that cannot check the token."""
        if time.monotonic() >= self.until:
            raise LeaseLost("the lease is over: another worker may have the job")

    def _renew(self, message: dict[str, Any]) -> None:
        # The message may have waited for a loop that was busy, so its end by the clock counts, too.
        self.until = min(time.monotonic() + message["left_ms"] / 1000, message["until_ms"] / 1000)
        if self._timer is None:
            self._look()

    def _look(self) -> None:
        self._timer = None
        left = self.left
        if left > 0:
            self._timer = asyncio.get_running_loop().call_later(left, self._look)
            return
        for job in list(self.jobs):
            job._cancel("lease_lost")
        self._over(self)


class Notification:
    """A notification of a job. It is done when the next one is asked for, or when `ack` is called."""

    def __init__(self, job: Job, n: int, body: bytes, refusals: int):
        self.body = body
        #: How often it was refused.
        self.refusals = refusals
        self._job = job
        self._n = n
        self._open = True

    def ack(self) -> None:
        """It is done."""
        self._say({})

    def refuse(self, retry_after: float, why: str = "") -> None:
        """Not now: it comes again after so many seconds, before any later one."""
        self._say({"retry_ms": millis(retry_after), "error": str(why)})

    def _say(self, more: dict[str, Any]) -> None:
        if self._open:
            self._open = False
            self._job._say({"op": "ack", "job": self._job._number, "n": self._n, **more})


class Job:
    """A job that this host runs."""

    def __init__(self, link: Link, message: dict[str, Any], lease: Lease):
        #: Its connection.
        self._link = link
        self._number: int = message["job"]
        self._key = take(message, "key") or b""
        #: The fencing token. Give it to each resource that you write to: it must refuse a lower one than it has seen.
        self.token: int = message["token"]
        #: The payload. Another one takes its place when an update was taken.
        self.payload: bytes = take(message, "body") or b""
        #: The name of the payload's type, if it has one.
        self.payload_type: str | None = message.get("type")
        #: The state that the last run has left. None if there is none.
        self.checkpoint_in: bytes | None = take(message, "checkpoint")
        #: The number of begins since the job was last healthy, this one included.
        self.attempt: int = message["attempt"]
        #: The id of its dispatch.
        self.id: str = message["id"]
        #: The trace of its dispatch: `parent` and `state`. None if it has none.
        self.trace: dict[str, str] | None = message.get("trace")
        self.lease = lease
        #: Why it must end. None while it need not.
        self.stop_reason: str | None = None
        #: Set when it must end.
        self.cancelled = asyncio.Event()
        self._task: asyncio.Task[Any] | None = None
        self._cancels = True
        self._ready = False
        self._stops = False
        #: Its function has ended.
        self._ends = False
        #: It has said its last word.
        self._over = False
        #: The asks and updates in hand.
        self._serving: set[asyncio.Task[Any]] = set()
        self._state: bytes | None = None
        self._notes: deque[Notification] = deque()
        self._noted = asyncio.Event()

    @property
    def key(self) -> str:
        """Its key as text. Bytes that are not UTF-8 are escaped as `os.fsdecode` does."""
        return self._key.decode(errors="surrogateescape")

    @property
    def key_bytes(self) -> bytes:
        """Its key."""
        return self._key

    def __repr__(self) -> str:
        return f"<Job {self.key!r} token {self.token}>"

    def ready(self) -> None:
        """It runs: its dispatch returns. Only for a handler that was registered with `ready=False`."""
        if not self._ready and not self._over:
            self._ready = True
            self._say({"op": "started", "job": self._number})

    async def checkpoint(self, state: bytes | str) -> None:
        """Leaves a small state with the job, for its next run. Returns when it is kept.

        Raises Fenced if the job is not this host's any more, and RequestError if the state is too long.
        """
        message = put({"op": "checkpoint", "job": self._number}, "body", self._fitting(state))
        await self._link.request(message, self)

    def leave(self, state: bytes | str) -> None:
        """The state for the next run, if this one is told to stop. Call it at any time; the last one counts.

        Raises RequestError if the state is too long. The state before stays then.
        """
        self._state = self._fitting(state)

    def progress(self) -> None:
        """It makes progress. A job with a progress timeout must call this more often than that."""
        self._say({"op": "progress", "job": self._number})

    def status(self, text: str) -> None:
        """A text for people. It counts as progress."""
        self._say({"op": "status", "job": self._number, "text": str(text)})

    async def notified(self) -> Notification:
        """The next notification."""
        while not self._notes:
            self._noted.clear()
            await self._noted.wait()
        return self._notes.popleft()

    async def notifications(self) -> AsyncIterator[Notification]:
        """The notifications, one after the other. Each is done when the loop asks for the next one.

        One that the loop leaves by `break` or by an error is not done. It comes again, perhaps to the next owner.
        """
        while True:
            note = await self.notified()
            yield note
            note.ack()

    def _fitting(self, state: bytes | str) -> bytes:
        state, longest = data(state), self._link.checkpoint_max
        if longest is not None and len(state) > longest:
            text = f"the state has {len(state)} bytes, and the pool keeps {longest} at most; it is not saved"
            raise RequestError("too_long", text)
        return state

    def _say(self, message: dict[str, Any]) -> None:
        # After its last word there is nothing to say of a job.
        if not self._over:
            self._link.send(message)

    def _note(self, message: dict[str, Any]) -> None:
        body = take(message, "body") or b""
        self._notes.append(Notification(self, message["n"], body, message.get("refusals", 0)))
        self._noted.set()

    def _cancel(self, why: str) -> None:
        if self.stop_reason is None:
            self.stop_reason = why
            self.cancelled.set()
            if self._cancels and self._task is not None:
                self._task.cancel()

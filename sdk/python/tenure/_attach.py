"""A host that attaches: it comes again, and nobody can end its process but itself."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from ._tell import tell

if TYPE_CHECKING:
    from ._host import Host
    from ._job import Lease

#: How long a node may take to answer a hello.
WELCOME = 30.0
#: How often a host that has said bye looks whether it has a job.
LOOK_AFTER = 5.0
#: How many keys an error names.
_KEYS = 10


class Pauses:
    """The pauses between attempts. They grow, so that a host that breaks off at once does not come at once."""

    FIRST, LONGEST = 0.1, 2.0
    #: How long a connection lasts after which the pauses begin anew.
    LASTING = 5.0

    def __init__(self) -> None:
        self._next = self.FIRST

    def after(self, lasted: float) -> float:
        """The pause after a connection that has lasted so long."""
        pause = self.FIRST if lasted > self.LASTING else self._next
        self._next = min(2 * pause, self.LONGEST)
        return pause


class Attachment:
    """What a host has while it attaches."""

    def __init__(self, host: Host):
        self._host = host
        #: Set when the host wants to end.
        self.leaves = asyncio.Event()
        #: The keys of some jobs that have not ended with their lease.
        self._outlived: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        self._timers: set[asyncio.TimerHandle] = set()

    async def serve(self, path: str) -> int:
        """Serves one connection after the other."""
        leaving = asyncio.ensure_future(self._leave())
        try:
            return await self._serve(path)
        finally:
            leaving.cancel()

    async def _serve(self, path: str) -> int:
        host, pauses, told = self._host, Pauses(), ""
        while not self.leaves.is_set():
            began = time.monotonic()
            welcome = asyncio.get_running_loop().call_later(WELCOME, self._look_for_welcome)
            try:
                status = await host._connection(path)
                why = host._refusal or "the connection has ended"
            except OSError as error:
                status, why = 1, str(error)
            finally:
                welcome.cancel()
            if not await self._emptied():
                # The node frees the keys 0.05 of the TTL after `_look`.
                host._ends_within = host.welcome.get("ttl_ms", 0) / 1000 / 100
                tell(f"tenure: jobs have not ended by their lease: {', '.join(self._outlived.result())}")
                return 1
            if status == 78:
                tell(f"tenure refuses this host: {why}")
                return status
            if status != 0 and why != told and not self.leaves.is_set():
                told = why
                tell(f"tenure: {why}, it attaches to {path} when it can")
            try:
                await asyncio.wait_for(self.leaves.wait(), pauses.after(time.monotonic() - began))
            except asyncio.TimeoutError:
                pass
        return 0

    async def _emptied(self) -> bool:
        """Waits for the end of all tasks of the last connection. False: a job has not ended with its lease."""
        while self._host._tasks and not self._outlived.done():
            await asyncio.wait([*self._host._tasks, self._outlived], return_when=asyncio.FIRST_COMPLETED)
        return not self._outlived.done()

    def _look_for_welcome(self) -> None:
        if not self._host.welcome:
            self._host._over(1)

    async def _leave(self) -> None:
        """Ends the connection of a host that has said bye, if it has no job and still no answer."""
        await self.leaves.wait()
        was_idle = False
        while True:
            await asyncio.sleep(LOOK_AFTER)
            is_idle = not self._host._jobs
            if is_idle and was_idle:
                self._host._over(1)
            was_idle = is_idle

    def watch(self, lease: Lease) -> None:
        """Ends the host if jobs of a lease that is over have not ended soon. The node frees them 0.2 of the TTL after it."""
        late = lease.until + 0.15 * self._host.welcome.get("ttl_ms", 0) / 1000

        def look() -> None:
            self._timers.discard(timer)
            self._look(lease)

        timer = asyncio.get_running_loop().call_later(max(0.0, late - time.monotonic()), look)
        self._timers.add(timer)

    def _look(self, lease: Lease) -> None:
        if lease.jobs and not self._outlived.done():
            self._outlived.set_result([repr(job.key) for job in list(lease.jobs)[:_KEYS]])
            self._host._over(1)

    def close(self) -> None:
        """It attaches no more."""
        for timer in self._timers:
            timer.cancel()
        self._outlived.cancel()

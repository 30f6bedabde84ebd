"""The host: its connection, its jobs, its requests."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import signal
import sys
import time
from typing import Any, Awaitable, Callable, Coroutine

from ._attach import Attachment
from ._errors import TEXT_MAX, Moved, Park, Refuse, Restart, text_of
from ._job import Job, Lease
from ._link import Link, lost
from ._pool import Pool
from ._tell import exit_now, tell, tell_error
from ._wire import VERSION, millis, put, take

JobHandler = Callable[[Job], Awaitable[Any]]

#: How long jobs may take to end after the connection of a child has.
_LAST = 1.0
#: The exit status of a host for which no worker is free now.
BUSY = 75
#: They have a host that attaches leave.
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Host:
    """A host of jobs.

    `max_jobs` bounds the jobs that it takes, `max_starting` those that it starts at once. `name` and `version` are for
    people.
    """

    def __init__(
        self,
        *,
        name: str = "",
        version: str = "",
        max_jobs: int | None = None,
        max_starting: int | None = None,
    ):
        self._hello: dict[str, Any] = {"name": name, "version": version}
        if max_jobs is not None:
            self._hello["max_jobs"] = max_jobs
        if max_starting is not None:
            self._hello["max_starting"] = max_starting
        #: The pool, to dispatch, ask and look.
        self.pool = Pool(self)
        #: What Tenure has said in its hello: `pool`, `node`, `worker`, `ttl_ms` and so on.
        self.welcome: dict[str, Any] = {}
        self._run: JobHandler | None = None
        self._options: dict[str, bool] = {}
        self._answer: Callable[[Job, bytes], Awaitable[bytes | str]] | None = None
        self._update: Callable[[Job, bytes], Awaitable[Any]] | None = None
        self._jobs: dict[int, Job] = {}
        self._leases: dict[int, Lease] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._link: Link | None = None
        self._end: asyncio.Future[int] | None = None
        #: It wants to end.
        self._leaves = False
        #: Why the connection was refused.
        self._refusal = ""
        self._attachment: Attachment | None = None
        #: How long the process may take for its last texts, in seconds, if it may not take the usual time.
        self._ends_within: float | None = None

    def job(self, handler: JobHandler | None = None, *, ready: bool = True, cancel: bool = True) -> Any:
        """Registers the async function that runs a job, from its start to its end.

        If it returns, the job has ended; if it raises, the job has failed. When the job must end, the function is cancelled.
        With `cancel=False` it is not: it has to watch `job.cancelled`. With `ready=False` the job counts as started only when
        the function calls `job.ready()`.
        """

        def register(handler: JobHandler) -> JobHandler:
            self._run = _async(handler)
            self._options = {"ready": ready, "cancel": cancel}
            return handler

        return register if handler is None else register(handler)

    def ask(self, handler: Any) -> Any:
        """Registers the async function that answers an ask: `answer(job, body) -> bytes or str`. `Refuse` refuses,
        and `Moved` sends it to the job's next owner."""
        self._answer = _async(handler)
        return handler

    def update(self, handler: Any) -> Any:
        """Registers the async function that takes another payload: `update(job, payload)`. `Restart` restarts the job."""
        self._update = _async(handler)
        return handler

    def bye(self) -> None:
        """Asks Tenure to hand all jobs on. This process ends then. `tenure host -- COMMAND` starts a new one in its place."""
        self._leaves = True
        if self._attachment is not None:
            self._attachment.leaves.set()
        if self._link is not None:
            self._link.send({"op": "bye"})

    def run(self) -> None:
        """Serves until there is nothing more to do, and ends the process.

        With TENURE_ATTACH in place of TENURE_SOCKET it attaches, and SIGTERM or SIGINT has its jobs handed on before it ends.
        A second one ends it at once.
        """
        sys.exit(asyncio.run(self._run_to_end()))

    async def _run_to_end(self) -> int:
        if "TENURE_SOCKET" not in os.environ:
            # Only the main thread gets signals.
            with contextlib.suppress(RuntimeError, ValueError):
                # A script starts a program in the background with SIGINT ignored.
                for number in [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]:
                    asyncio.get_running_loop().add_signal_handler(number, self._signalled)
        status = await self.serve()
        if self._tasks or status == 1:
            # Tasks have not ended though they were cancelled, or threads run on. Nothing may wait for them.
            exit_now(status, self._ends_within)
        return status

    def _signalled(self) -> None:
        for number in _SIGNALS:
            if asyncio.get_running_loop().remove_signal_handler(number):
                # The next one ends the process.
                signal.signal(number, signal.SIG_DFL)
        self.bye()

    async def serve(self, path: str | None = None) -> int:
        """Serves until there is nothing more to do, and returns the exit status. `path` is for tests."""
        if self._run is None:
            raise TypeError("register a function with @host.job first")
        path = path or os.environ.get("TENURE_SOCKET")
        if path is not None:
            status = await self._connection(path)
            if self._refusal:
                tell(f"tenure refuses this host: {self._refusal}")
            for job in self._jobs.values():
                # A child is killed soon, and those that watch for their end have no more time.
                if not job._cancels and job._task is not None:
                    job._task.cancel()
            await self._emptied(_LAST)
            return status
        path = os.environ.get("TENURE_ATTACH")
        if path is None:
            raise RuntimeError(
                "there is no TENURE_SOCKET and no TENURE_ATTACH: start this program by `tenure host -- COMMAND`"
            )
        return await self.attach(path)

    async def attach(self, path: str) -> int:
        """Attaches to the socket of `tenure host --attach`, and again whenever the connection has ended.

        It waits for the socket, and for a free worker. It attaches again only when all jobs of the last connection have
        ended. Returns the exit status: 0 after `bye`, 78 if the node speaks another version. 1: a job did not end with its
        lease. End the process at once then, for another worker gets the job in a moment.

        Raises RuntimeError where there is no Linux: a lease needs the clock of the node.
        """
        if self._run is None:
            raise TypeError("register a function with @host.job first")
        if not sys.platform.startswith("linux"):
            raise RuntimeError("a host can attach only on Linux: a lease needs the clock of the node")
        attachment = self._attachment = Attachment(self)
        if self._leaves:
            attachment.leaves.set()
        try:
            return await attachment.serve(path)
        finally:
            self._attachment = None
            attachment.close()

    async def _connection(self, path: str) -> int:
        """Serves one connection. When it ends, all its jobs are cancelled."""
        loop = asyncio.get_running_loop()
        self.welcome, self._leases, self._refusal = {}, {}, ""
        self._end = loop.create_future()
        link = Link(self)
        try:
            await loop.create_unix_connection(lambda: link, path)
            return await self._end
        finally:
            link.close()
            for job in list(self._jobs.values()):
                job._cancel("lease_lost")

    async def _emptied(self, within: float) -> bool:
        """Waits for the end of all tasks. False: some are left."""
        until = time.monotonic() + within
        while self._tasks and (left := until - time.monotonic()) > 0:
            await asyncio.wait(list(self._tasks), timeout=left)
        return not self._tasks

    def _connected(self, link: Link) -> None:
        self._link = link
        features = ["checkpoint", "client"]
        if self._answer is not None:
            features.append("ask")
        if self._update is not None:
            features.append("update")
        hello = {"op": "hello", "v": [VERSION], "sdk": "python/0.1.0", "features": features, **self._hello}
        link.send(hello)
        if self._leaves:
            link.send({"op": "bye"})

    def _disconnected(self, link: Link) -> None:
        # The end of an earlier connection may come late.
        if link is self._link:
            self._over(1)

    def _over(self, status: int) -> None:
        if self._end is not None and not self._end.done():
            self._end.set_result(status)

    async def _request(self, message: dict[str, Any]) -> dict[str, Any]:
        if self._link is None:
            raise lost()
        return await self._link.request(message)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _lease(self, number: int) -> Lease:
        if number not in self._leases:
            # Those of the next connection have the same numbers.
            leases = self._leases
            self._leases[number] = Lease(number, lambda lease: self._lease_over(leases, lease))
        return self._leases[number]

    def _lease_over(self, leases: dict[int, Lease], lease: Lease) -> None:
        leases.pop(lease.number, None)
        if self._attachment is not None:
            # Nobody else ends the process if its jobs do not end.
            self._attachment.watch(lease)

    def _hear(self, message: dict[str, Any]) -> None:
        hear = _WORDS.get(message.get("op", ""))
        # Words of a later version are not for this host.
        if hear is not None:
            hear(self, message)

    def _hear_hello(self, message: dict[str, Any]) -> None:
        self.welcome = message
        self._hear_bounds(message)

    def _hear_bounds(self, message: dict[str, Any]) -> None:
        if self._link is not None:
            self._link.checkpoint_max = message.get("checkpoint_max")

    def _hear_unsaved(self, message: dict[str, Any]) -> None:
        key = (take(message, "key") or b"").decode(errors="replace")
        tell(f"the last state of the job {key!r} may not be kept: {message.get('text')}")

    def _hear_refused(self, message: dict[str, Any]) -> None:
        self._refusal = str(message.get("why"))
        # It speaks no version of ours, or no worker is free now.
        self._over(78 if "ours" in message else BUSY)

    def _hear_lease(self, message: dict[str, Any]) -> None:
        number = message["lease"]
        self._lease(number)._renew(message)

    def _hear_start(self, message: dict[str, Any]) -> None:
        lease = self._lease(message["lease"])
        assert self._link is not None
        job = Job(self._link, message, lease)
        self._jobs[job._number] = job
        lease.jobs.add(job)
        job._cancels = self._options["cancel"]
        job._task = self._spawn(self._lived(job))
        # Also for one that is cancelled before its first step.
        job._task.add_done_callback(lambda task: self._ended(job, task))
        if lease.left == 0:
            job._cancel("lease_lost")

    def _hear_stop(self, message: dict[str, Any]) -> None:
        job = self._jobs.get(message["job"])
        # It may have ended before.
        if job is not None:
            job._stops = True
            job._cancel(message.get("why", "stopped"))

    def _hear_notify(self, message: dict[str, Any]) -> None:
        job = self._jobs.get(message["job"])
        if job is not None:
            job._note(message)

    def _hear_ask(self, message: dict[str, Any]) -> None:
        job = self._jobs.get(message["job"])
        if job is not None and self._answer is not None:
            self._serve(job, self._answered(job, message))

    def _hear_update(self, message: dict[str, Any]) -> None:
        job = self._jobs.get(message["job"])
        if job is not None and self._update is not None:
            self._serve(job, self._updated(job, message))

    def _serve(self, job: Job, work: Coroutine[Any, Any, Any]) -> None:
        """Does this for a job, unless the job is over. The job's last word waits for its end."""
        if job._ends:
            work.close()
            return
        task = self._spawn(work)
        job._serving.add(task)
        task.add_done_callback(job._serving.discard)

    def _hear_ping(self, message: dict[str, Any]) -> None:
        assert self._link is not None
        self._link.send({"op": "pong", "n": message["n"]})

    def _hear_ok(self, message: dict[str, Any]) -> None:
        assert self._link is not None
        self._link.answered(message)

    _hear_error = _hear_ok

    def _hear_bye(self, message: dict[str, Any]) -> None:
        self._over(0)

    def _ended(self, job: Job, task: asyncio.Task[Any]) -> None:
        number = job._number
        if job._stops:
            last = {"op": "stopped", "job": number}
        elif job.stop_reason is not None:
            # Nobody has told it to end but its lease.
            last = {"op": "ended", "job": number, "error": "the lease was over", "lost": True}
        elif task.cancelled():
            last = {"op": "ended", "job": number, "error": "it was cancelled by its own code"}
        elif (error := task.exception()) is not None:
            last = self._failed(job, text_of(error), park=False)
        else:
            last = task.result()
        job._ends = True
        if job._serving:
            self._spawn(self._closed(job, last))
        else:
            self._last_word(job, last)

    async def _closed(self, job: Job, last: dict[str, Any]) -> None:
        serving = list(job._serving)
        for task in serving:
            task.cancel()
        await asyncio.wait(serving)
        self._last_word(job, last)

    async def _lived(self, job: Job) -> dict[str, Any]:
        assert self._run is not None
        number = job._number
        if job.stop_reason is not None:
            # It has to end before it has begun.
            return {"op": "ended", "job": number}
        try:
            if self._options["ready"]:
                job.ready()
            await self._run(job)
            return {"op": "ended", "job": number}
        except Refuse as refusal:
            return self._refused(job, refusal)
        except Park as why:
            return self._failed(job, str(why)[:TEXT_MAX], park=True)
        except Exception as error:
            if job.stop_reason is None or job._stops:
                tell_error()
            return self._failed(job, text_of(error), park=False)

    def _refused(self, job: Job, refusal: Refuse) -> dict[str, Any]:
        if job._ready:
            return self._failed(job, str(refusal)[:TEXT_MAX] or "it was refused after it was ready", park=False)
        message: dict[str, Any] = {"op": "refused", "job": job._number}
        if refusal.retry_after is not None:
            message["retry_ms"] = millis(refusal.retry_after)
        if refusal.elsewhere:
            message["elsewhere"] = True
        return message

    def _failed(self, job: Job, error: str, park: bool) -> dict[str, Any]:
        message: dict[str, Any] = {"op": "ended" if job._ready else "failed", "job": job._number, "error": error}
        if park:
            message["park"] = True
        return message

    def _last_word(self, job: Job, message: dict[str, Any]) -> None:
        if job._over:
            return
        number = job._number
        try:
            if message["op"] == "stopped" and job._state is not None:
                job._say(put(dict(message), "checkpoint", job._state))
            else:
                job._say(message)
        except Exception as error:
            # Its last state does not fit into a line.
            tell_error()
            job._say({"op": message["op"], "job": number, "error": text_of(error)})
        job._over = True
        self._jobs.pop(job._number, None)
        job.lease.jobs.discard(job)

    async def _answered(self, job: Job, message: dict[str, Any]) -> None:
        assert self._answer is not None
        answer: dict[str, Any] = {"op": "answer", "job": job._number, "n": message["n"]}
        try:
            job._say(put(dict(answer), "body", await self._answer(job, take(message, "body") or b"")))
        except Moved:
            job._say({**answer, "moved": True})
        except Refuse as refusal:
            job._say({**answer, "error": str(refusal)[:TEXT_MAX]})
        except Exception as error:
            tell_error()
            job._say({**answer, "error": text_of(error)})

    async def _updated(self, job: Job, message: dict[str, Any]) -> None:
        assert self._update is not None
        answer: dict[str, Any] = {"op": "updated", "job": job._number, "n": message["n"]}
        payload = take(message, "body") or b""
        try:
            await self._update(job, payload)
            job.payload, job.payload_type = payload, message.get("type")
        except Restart:
            answer["restart"] = True
        except Exception as error:
            tell_error()
            answer["error"] = text_of(error)
        job._say(answer)


_WORDS: dict[str, Callable[[Host, dict[str, Any]], None]] = {
    name.removeprefix("_hear_"): method for name, method in vars(Host).items() if name.startswith("_hear_")
}


def _async(handler: Any) -> Any:
    if not inspect.iscoroutinefunction(handler):
        raise TypeError(f"{handler!r} is no async function")
    return handler

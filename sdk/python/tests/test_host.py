"""The SDK beside a Tenure that is played by the test. `tenure host --check` has all rules of the protocol."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

from tenure import Fenced, Host, LeaseLost, Moved, Park, Refuse, RequestError, Restart
from tenure import _tell
from tenure._attach import Pauses
from tenure._wire import LINE_MAX, millis, pack, put, take


class Tenure:
    """The other side of a host's connection."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    def say(self, **message):
        self.writer.write(pack(message))

    async def hear(self, op):
        message = json.loads(await asyncio.wait_for(self.reader.readline(), 10))
        assert message["op"] == op, f"{message} is no {op}"
        return message

    def lease(self, number=1, left=60.0):
        until = round((time.monotonic() + left) * 1000)
        self.say(op="lease", lease=number, left_ms=round(left * 1000), until_ms=until)

    def start(self, job=1, key="acme", lease=1, **more):
        more.setdefault("body", "")
        self.say(op="start", job=job, key=key, token=7, lease=lease, id="n.1", attempt=1, within_ms=30000, **more)


@contextlib.asynccontextmanager
async def connected(host, status=0):
    """A host that has said hello, and ends with this status."""
    come = asyncio.get_running_loop().create_future()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "socket")
        server = await asyncio.start_unix_server(lambda *ends: come.set_result(Tenure(*ends)), path, limit=2 * LINE_MAX)
        serving = asyncio.ensure_future(host.serve(path))
        tenure = await come
        tenure.greeting = await tenure.hear("hello")
        tenure.say(op="hello", v=1, pool="p", node="n", worker=0, ttl_ms=10000, features=[], tenure="0")
        tenure.lease()
        yield tenure
        if not serving.done():
            tenure.say(op="bye")
        assert await asyncio.wait_for(serving, 10) == status
        tenure.writer.close()
        server.close()


class Wire(unittest.TestCase):
    def test_bytes_come_back_as_they_were(self):
        for data in [b"", b"text \n\0", b"\xff\0", "\U0001f980".encode()]:
            message = json.loads(pack(put({}, "body", data)))
            self.assertEqual(take(message, "body"), data)
        self.assertIsNone(take({}, "body"))

    def test_a_time_is_whole_milliseconds(self):
        times = [0.0015, -1, float("nan"), float("inf"), 2]
        self.assertEqual([millis(time) for time in times], [2, 0, 0, (1 << 53) - 1, 2000])

    def test_a_line_that_is_too_long_is_an_error(self):
        with self.assertRaises(ValueError):
            pack({"text": "x" * LINE_MAX})


class Jobs(unittest.IsolatedAsyncioTestCase):
    async def test_a_host_needs_an_async_function(self):
        with self.assertRaises(TypeError):
            Host().job(lambda job: None)
        with self.assertRaises(TypeError):
            await Host().serve("/none")

    async def test_hello_has_what_the_host_can_do(self):
        host = Host(name="feeds", max_jobs=5)

        @host.job
        async def run(job):
            pass

        async with connected(host) as tenure:
            self.assertEqual(tenure.greeting["v"], [1])
            self.assertEqual((tenure.greeting["name"], tenure.greeting["max_jobs"]), ("feeds", 5))
            self.assertEqual(tenure.greeting["features"], ["checkpoint", "client"])

    async def test_a_job_is_cancelled_and_then_stopped(self):
        host, seen = Host(), []

        @host.job
        async def run(job):
            seen.append((job.key, job.token, job.payload, job.checkpoint_in))
            try:
                await asyncio.sleep(1000)
            finally:
                seen.append(job.stop_reason)
                job.leave(b"\xff")

        async with connected(host) as tenure:
            tenure.start(body="gold", checkpoint="41")
            await tenure.hear("started")
            tenure.say(op="stop", job=1, why="moved", within_ms=1000)
            self.assertEqual((await tenure.hear("stopped"))["checkpoint64"], "/w==")
        self.assertEqual(seen, [("acme", 7, b"gold", b"41"), "moved"])

    async def test_a_state_that_is_too_long_is_refused_with_its_length(self):
        host, refused = Host(), []

        @host.job
        async def run(job):
            try:
                await asyncio.sleep(1000)
            finally:
                job.leave("1234")
                # Bytes count, not characters.
                for state in ["12345", b"12345", "\u00e4\u00e4\u00e4"]:
                    with self.assertRaisesRegex(RequestError, "pool keeps 4 at most") as caught:
                        job.leave(state)
                    refused.append(caught.exception.code)

        async with connected(host) as tenure:
            tenure.say(op="bounds", checkpoint_max=4)
            tenure.start()
            await tenure.hear("started")
            tenure.say(op="stop", job=1, why="moved", within_ms=1000)
            self.assertEqual((await tenure.hear("stopped"))["checkpoint"], "1234")
        self.assertEqual(refused, ["too_long"] * 3)

    async def test_a_last_state_that_is_not_kept_is_logged(self):
        host = Host()

        @host.job
        async def run(job):
            pass

        with mock.patch("tenure._host.tell") as told:
            async with connected(host) as tenure:
                tenure.say(op="unsaved", job=1, key="acme", code="refused", text="redis is full")
                tenure.say(op="ping", n=1)
                await tenure.hear("pong")
        told.assert_called_once_with("the last state of the job 'acme' may not be kept: redis is full")

    async def test_a_stop_before_the_first_step_is_answered(self):
        host = Host()

        @host.job
        async def run(job):
            await asyncio.sleep(1000)

        async with connected(host) as tenure:
            # Both in one read: the job's task has not run by then.
            tenure.start()
            tenure.say(op="stop", job=1, why="stopped", within_ms=1000)
            await tenure.hear("stopped")
            tenure.say(op="stop", job=1, why="stopped", within_ms=1000)
            tenure.say(op="ping", n=1)
            await tenure.hear("pong")

    async def test_errors_become_last_words(self):
        host = Host()
        ends = {"ends": None, "fails": RuntimeError("boom"), "parks": Park("shut"), "late": Refuse("no")}

        @host.job
        async def run(job):
            if ends[job.key]:
                raise ends[job.key]

        async with connected(host) as tenure:
            words = []
            for number, key in enumerate(ends, 1):
                tenure.start(job=number, key=key)
                await tenure.hear("started")
                word = await tenure.hear("ended")
                words.append((word.get("error"), word.get("park", False)))
        self.assertEqual(words, [(None, False), ("RuntimeError: boom", False), ("shut", True), ("no", False)])

    async def test_errors_are_said_though_nobody_reads_standard_error(self):
        # On a busy machine, asyncio itself would write a note of a slow step to standard error, and wait for a reader.
        asyncio.get_running_loop().set_debug(False)
        for reader_is_gone in (True, False):
            reader, writer = os.pipe()
            if reader_is_gone:
                os.close(reader)
            else:
                os.set_blocking(writer, False)
                with contextlib.suppress(BlockingIOError):
                    while True:
                        os.write(writer, b"x")
                os.set_blocking(writer, True)
            host = Host()

            @host.job
            async def run(job):
                raise RuntimeError("boom")

            # A thread that waits for the pipe keeps it.
            stream = os.fdopen(writer, "w", buffering=1, closefd=False)
            with mock.patch.object(sys, "stderr", stream), mock.patch.object(_tell, "_teller", _tell._Teller()):
                async with connected(host) as tenure:
                    tenure.start()
                    await tenure.hear("started")
                    self.assertEqual((await tenure.hear("ended"))["error"], "RuntimeError: boom")

    async def test_texts_without_room_are_counted_and_told(self):
        free, texts, teller = threading.Event(), [], _tell._Teller()

        def write(text):
            free.wait()
            texts.append(text)

        with mock.patch.object(_tell, "_write", write):
            teller.put("busy\n")
            while not teller._texts.empty():
                await asyncio.sleep(0)
            for _ in range(_tell._WAITING + 7):
                teller.put("text\n")
            free.set()
            teller.end(60)
        self.assertEqual(texts.count("text\n"), _tell._WAITING)
        self.assertIn("tenure: 7 texts are missing, nobody took them\n", texts)

    async def test_a_job_that_is_not_ready_fails_or_is_refused(self):
        host = Host()
        ends = {"fails": RuntimeError("boom"), "parks": Park("shut"), "refused": Refuse(retry_after=0.5, elsewhere=True)}

        @host.job(ready=False)
        async def run(job):
            raise ends[job.key]

        async with connected(host) as tenure:
            tenure.start(job=1, key="fails")
            self.assertEqual((await tenure.hear("failed"))["error"], "RuntimeError: boom")
            tenure.start(job=2, key="parks")
            self.assertEqual((await tenure.hear("failed"))["park"], True)
            tenure.start(job=3, key="refused")
            refused = await tenure.hear("refused")
            self.assertEqual((refused["retry_ms"], refused["elsewhere"]), (500, True))

    async def test_a_job_may_watch_for_its_end_itself(self):
        host = Host()

        @host.job(cancel=False)
        async def run(job):
            await job.cancelled.wait()
            await asyncio.sleep(0)
            job.status("tidied up")

        async with connected(host) as tenure:
            tenure.start()
            await tenure.hear("started")
            tenure.say(op="stop", job=1, why="stopped", within_ms=1000)
            await tenure.hear("status")
            await tenure.hear("stopped")

    async def test_a_lease_that_ends_cancels_its_jobs(self):
        host, checks = Host(), []

        @host.job
        async def run(job):
            job.lease.check()
            try:
                await asyncio.sleep(1000)
            finally:
                try:
                    job.lease.check()
                except LeaseLost:
                    checks.append(job.key)

        async with connected(host) as tenure:
            tenure.lease(2, left=2)
            tenure.start(job=1, key="long")
            tenure.start(job=2, key="short", lease=2)
            await tenure.hear("started")
            await tenure.hear("started")
            self.assertEqual((await tenure.hear("ended")), {
                "op": "ended", "job": 2, "error": "the lease was over", "lost": True,
            })
            self.assertEqual(checks, ["short"])

    async def test_a_notification_is_done_when_the_next_is_asked_for(self):
        host, go = Host(), asyncio.Event()

        @host.job
        async def run(job):
            async for note in job.notifications():
                if note.body == b"refuse":
                    note.refuse(2, "busy")
                await go.wait()

        async with connected(host) as tenure:
            tenure.start()
            await tenure.hear("started")
            tenure.say(op="notify", job=1, n=1, body="a")
            tenure.say(op="ping", n=1)
            await tenure.hear("pong")
            go.set()
            self.assertEqual(await tenure.hear("ack"), {"op": "ack", "job": 1, "n": 1})
            tenure.say(op="notify", job=1, n=2, body="refuse")
            self.assertEqual((await tenure.hear("ack"))["retry_ms"], 2000)

    async def test_asks_and_updates_have_their_answers(self):
        host = Host()

        @host.job
        async def run(job):
            await asyncio.sleep(1000)

        @host.ask
        async def answer(job, body):
            if body == b"no":
                raise Refuse("never")
            if body == b"moved":
                raise Moved
            return job.payload + body

        @host.update
        async def update(job, payload):
            if payload == b"other":
                raise Restart

        async with connected(host) as tenure:
            self.assertEqual(tenure.greeting["features"], ["checkpoint", "client", "ask", "update"])
            tenure.start(body="gold")
            await tenure.hear("started")
            tenure.say(op="update", job=1, n=1, body="silver")
            self.assertNotIn("restart", await tenure.hear("updated"))
            tenure.say(op="ask", job=1, n=1, id="a", asker="n", within_ms=1000, body="?")
            self.assertEqual((await tenure.hear("answer"))["body"], "silver?")
            tenure.say(op="ask", job=1, n=2, id="a", asker="n", within_ms=1000, body="no")
            self.assertEqual((await tenure.hear("answer"))["error"], "never")
            tenure.say(op="ask", job=1, n=3, id="a", asker="n", within_ms=1000, body="moved")
            self.assertEqual(await tenure.hear("answer"), {"op": "answer", "job": 1, "n": 3, "moved": True})
            tenure.say(op="update", job=1, n=2, body="other")
            self.assertTrue((await tenure.hear("updated"))["restart"])

    async def test_the_last_word_waits_for_asks_and_updates(self):
        host, ends = Host(), []

        @host.job
        async def run(job):
            await asyncio.sleep(1000)

        async def slow(job, body):
            try:
                await asyncio.sleep(1000)
            finally:
                for _ in range(5):
                    await asyncio.sleep(0)
                ends.append(body)

        host.ask(slow)
        host.update(slow)
        async with connected(host) as tenure:
            tenure.start()
            await tenure.hear("started")
            tenure.say(op="ask", job=1, n=1, id="a", asker="n", within_ms=1000, body="ask")
            tenure.say(op="update", job=1, n=1, body="update")
            tenure.say(op="ping", n=1)
            await tenure.hear("pong")
            tenure.say(op="stop", job=1, why="stopped", within_ms=1000)
            await tenure.hear("stopped")
            self.assertEqual(sorted(ends), [b"ask", b"update"])

    async def test_a_job_of_a_lease_that_is_over_does_not_run(self):
        host, runs = Host(), []

        @host.job
        async def run(job):
            runs.append(job.key)

        async with connected(host) as tenure:
            tenure.start(lease=9)
            self.assertTrue((await tenure.hear("ended"))["lost"])
        self.assertEqual(runs, [])

    async def test_values_that_do_not_fit_hurt_their_caller_only(self):
        host = Host()

        @host.job
        async def run(job):
            job.status(42)
            job.status("lone \ud800")
            for call in [lambda: job.leave(42), lambda: job.leave({}), lambda: Refuse(retry_after="soon")]:
                with self.assertRaises((TypeError, ValueError)):
                    call()
            with self.assertRaises(TypeError):
                await job.checkpoint(42)
            await host.pool.dispatch("b", within=-1.5, policy=3)

        async with connected(host) as tenure:
            tenure.start()
            await tenure.hear("started")
            self.assertEqual((await tenure.hear("status"))["text"], "42")
            self.assertEqual((await tenure.hear("status"))["text"], "lone ?")
            request = await tenure.hear("dispatch")
            self.assertEqual((request["within_ms"], request["policy"]), (0, "3"))
            tenure.say(op="ok", rid=request["rid"])
            await tenure.hear("ended")

    async def test_requests_wait_for_a_place(self):
        host = Host()

        @host.job
        async def run(job):
            # Nobody waits for the first one: it is open all the same.
            first = asyncio.ensure_future(host.pool.get("key-0"))
            await asyncio.sleep(0)
            first.cancel()
            await asyncio.gather(*(host.pool.get(f"key-{n}") for n in range(1, 300)))

        async with connected(host) as tenure:
            tenure.start()
            await tenure.hear("started")
            rids = [(await tenure.hear("get"))["rid"] for _ in range(256)]
            tenure.say(op="ping", n=1)
            await tenure.hear("pong")
            for _ in range(256, 300):
                tenure.say(op="ok", rid=rids.pop(0))
                rids.append((await tenure.hear("get"))["rid"])
            for rid in rids:
                tenure.say(op="ok", rid=rid)
            await tenure.hear("ended")

    async def test_requests_and_checkpoints_have_their_answers(self):
        host, results = Host(), []

        @host.job
        async def run(job):
            results.append(await host.pool.get("b"))
            for call in [job.checkpoint("41"), job.checkpoint("42"), host.pool.dispatch("b", within=1.5)]:
                try:
                    results.append(await call)
                except RequestError as error:
                    results.append((type(error), error.code))
            results.extend([await host.pool.ensure("b"), await host.pool.ensure("c")])

        async with connected(host) as tenure:
            tenure.start()
            await tenure.hear("started")
            tenure.say(op="ok", rid=(await tenure.hear("get"))["rid"], job={"key": "b"})
            tenure.say(op="ok", rid=(await tenure.hear("checkpoint"))["rid"])
            tenure.say(op="error", rid=(await tenure.hear("checkpoint"))["rid"], code="fenced", text="gone")
            request = await tenure.hear("dispatch")
            self.assertEqual((request["key"], request["within_ms"]), ("b", 1500))
            tenure.say(op="error", rid=request["rid"], code="exists", text="it is there")
            tenure.say(op="ok", rid=(await tenure.hear("ensure"))["rid"], started=False)
            tenure.say(op="ok", rid=(await tenure.hear("ensure"))["rid"], started=True)
            await tenure.hear("ended")
        failed = [(Fenced, "fenced"), (RequestError, "exists")]
        self.assertEqual(results, [{"key": "b"}, None, *failed, False, True])

    async def test_a_refused_host_ends_with_78(self):
        host = Host()

        @host.job
        async def run(job):
            pass

        async with connected(host, status=78) as tenure:
            tenure.say(op="refused", why="a test", ours=[2], theirs=[1])

    async def test_a_host_ends_with_its_connection(self):
        host = Host()

        @host.job
        async def run(job):
            await asyncio.sleep(1000)

        async with connected(host, status=1) as tenure:
            tenure.start()
            await tenure.hear("started")
            tenure.writer.close()
            await asyncio.sleep(0)
            await asyncio.wait_for(host._end, 10)


#: A host with a job that takes no notice of its end.
STUBBORN = """
import asyncio
from tenure import Host
host = Host()
@host.job(cancel=False)
async def run(job):
    await asyncio.sleep(1000)
host.run()
"""


class Attached(unittest.IsolatedAsyncioTestCase):
    """A host that nobody but its user has started."""

    async def asyncSetUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "socket")
        self.come = asyncio.Queue()

    async def listen(self):
        def come(reader, writer):
            self.addCleanup(writer.close)
            self.come.put_nowait(Tenure(reader, writer))

        server = await asyncio.start_unix_server(come, self.path)
        self.addCleanup(server.close)

    async def attach(self, host):
        """The host, which attaches to the socket that is made here."""
        await self.listen()
        return asyncio.ensure_future(host.attach(self.path))

    async def greeted(self):
        """The next connection, which has said hello."""
        tenure = await asyncio.wait_for(self.come.get(), 10)
        tenure.greeting = await tenure.hear("hello")
        return tenure

    async def next(self, ttl=10.0):
        """The next connection, which is welcome."""
        tenure = await self.greeted()
        tenure.say(op="hello", v=1, pool="p", node="n", worker=0, ttl_ms=round(ttl * 1000), features=[], tenure="0")
        return tenure

    async def test_it_waits_for_the_socket_and_attaches_again(self):
        host, running = Host(), []

        @host.job
        async def run(job):
            running.append(job.key)
            try:
                await asyncio.sleep(1000)
            finally:
                await asyncio.sleep(0.3)
                running.remove(job.key)

        serving = asyncio.ensure_future(host.attach(self.path))
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(serving), 0.15)
        await self.listen()
        for number in range(3):
            tenure = await self.next()
            # Those of the last connection have ended.
            self.assertEqual(running, [])
            tenure.lease()
            tenure.start(key=f"key-{number}")
            await tenure.hear("started")
            if number == 1:
                tenure.say(op="bye")
            elif number == 0:
                tenure.writer.close()
        host.bye()
        await tenure.hear("bye")
        tenure.say(op="stop", job=1, why="draining", within_ms=1000)
        await tenure.hear("stopped")
        tenure.say(op="bye")
        self.assertEqual(await asyncio.wait_for(serving, 10), 0)

    async def test_it_comes_again_when_no_worker_is_free(self):
        host = Host()

        @host.job
        async def run(job):
            pass

        serving = await self.attach(host)
        for _ in range(2):
            tenure = await self.greeted()
            tenure.say(op="refused", why="each worker has a host")
        tenure = await self.next()
        tenure.lease()
        tenure.start()
        await tenure.hear("started")
        await tenure.hear("ended")
        tenure.writer.close()
        tenure = await asyncio.wait_for(self.come.get(), 10)
        tenure.say(op="refused", why="another version", ours=[2], theirs=[1])
        self.assertEqual(await asyncio.wait_for(serving, 10), 78)

    async def test_it_ends_if_a_job_outlives_its_lease(self):
        host, free = Host(), asyncio.Event()

        @host.job(cancel=False)
        async def run(job):
            await free.wait()

        serving = await self.attach(host)
        tenure = await self.next(ttl=0.1)
        tenure.lease(left=0.3)
        tenure.start()
        await tenure.hear("started")
        tenure.writer.close()
        self.assertEqual(await asyncio.wait_for(serving, 10), 1)
        self.assertTrue(self.come.empty(), "it has not attached again")
        free.set()

    async def test_a_lease_of_the_last_connection_ends_no_job_of_this_one(self):
        host, reasons = Host(), []

        @host.job
        async def run(job):
            try:
                await asyncio.sleep(1000)
            finally:
                reasons.append(job.stop_reason)

        serving = await self.attach(host)
        tenure = await self.next()
        tenure.lease()
        tenure.start()
        await tenure.hear("started")
        last = host._leases[1]
        tenure.writer.close()
        tenure = await self.next()
        tenure.lease()
        tenure.start()
        await tenure.hear("started")
        # Its timer runs out now.
        last.until = 0.0
        last._timer.cancel()
        last._look()
        tenure.lease()
        tenure.say(op="ping", n=1)
        await tenure.hear("pong")
        self.assertEqual(reasons, ["lease_lost"])
        self.assertEqual(len(host._leases), 1)
        self.assertEqual(len(host._leases[1].jobs), 1)
        host.bye()
        await tenure.hear("bye")
        tenure.say(op="bye")
        self.assertEqual(await asyncio.wait_for(serving, 10), 0)

    async def test_it_ends_if_a_job_outlives_its_lease_on_an_open_connection(self):
        host, free = Host(), asyncio.Event()

        @host.job(cancel=False)
        async def run(job):
            await free.wait()

        serving = await self.attach(host)
        tenure = await self.next(ttl=0.1)
        tenure.lease(left=0.3)
        tenure.start()
        await tenure.hear("started")
        self.assertEqual(await asyncio.wait_for(serving, 10), 1)
        free.set()

    async def test_it_ends_by_the_earliest_lease_of_its_jobs(self):
        host, free = Host(), asyncio.Event()

        @host.job(cancel=False)
        async def run(job):
            await free.wait()

        serving = await self.attach(host)
        tenure = await self.next(ttl=0.1)
        tenure.lease(1, left=0.3)
        tenure.lease(2, left=60)
        tenure.start(job=1, lease=1)
        tenure.start(job=2, lease=2)
        await tenure.hear("started")
        await tenure.hear("started")
        tenure.writer.close()
        self.assertEqual(await asyncio.wait_for(serving, 10), 1)
        free.set()

    async def test_a_job_ends_with_its_lease_though_the_node_reads_nothing(self):
        host, ended = Host(), asyncio.Event()

        @host.job
        async def run(job):
            try:
                while True:
                    job.status("x" * 10000)
                    await asyncio.sleep(0)
            finally:
                ended.set()

        serving = await self.attach(host)
        tenure = await self.next()
        tenure.lease(left=0.2)
        tenure.start()
        await asyncio.wait_for(ended.wait(), 10)
        host.bye()
        tenure.say(op="bye")
        self.assertEqual(await asyncio.wait_for(serving, 10), 0)

    async def test_it_leaves_a_node_that_reads_nothing(self):
        host = Host()

        @host.job
        async def run(job):
            while True:
                job.status("x" * 100000)
                await asyncio.sleep(0)

        with mock.patch("tenure._link._UNSENT_MAX", 1 << 20):
            serving = await self.attach(host)
            tenure = await self.next()
            tenure.lease()
            tenure.start()
            tenure = await self.next()
        host.bye()
        tenure.say(op="bye")
        self.assertEqual(await asyncio.wait_for(serving, 10), 0)

    async def test_a_job_of_the_last_connection_has_no_checkpoint_on_this_one(self):
        host, jobs = Host(), []

        @host.job
        async def run(job):
            jobs.append(job)
            await asyncio.sleep(1000)

        serving = await self.attach(host)
        for number in range(2):
            tenure = await self.next()
            tenure.lease()
            tenure.start()
            await tenure.hear("started")
            if number == 0:
                tenure.writer.close()
        with self.assertRaises(Fenced):
            await asyncio.wait_for(jobs[0].checkpoint("stale"), 10)
        jobs[0].progress()
        jobs[0].status("stale")
        tenure.say(op="ping", n=1)
        await tenure.hear("pong")
        host.bye()
        await tenure.hear("bye")
        tenure.say(op="bye")
        self.assertEqual(await asyncio.wait_for(serving, 10), 0)

    async def test_a_job_that_waits_for_a_place_is_fenced_when_it_is_over(self):
        host, late = Host(), []

        @host.job
        async def run(job):
            late.extend(asyncio.ensure_future(job.checkpoint("late")) for _ in range(257))
            await asyncio.sleep(0)

        async with connected(host) as tenure:
            tenure.start()
            await tenure.hear("started")
            rids = [(await tenure.hear("checkpoint"))["rid"] for _ in range(256)]
            await tenure.hear("ended")
            tenure.say(op="ok", rid=rids[0])
            with self.assertRaises(Fenced):
                await asyncio.wait_for(late[256], 10)
            tenure.say(op="ping", n=1)
            await tenure.hear("pong")
        for task in late[1:256]:
            with self.assertRaises(RequestError):
                await task

    async def test_a_job_of_a_lease_that_is_over_does_not_run(self):
        host, runs = Host(), []

        @host.job(cancel=False)
        async def run(job):
            runs.append(job)

        async with connected(host) as tenure:
            tenure.start(lease=9)
            self.assertTrue((await tenure.hear("ended"))["lost"])
        self.assertEqual(runs, [])

    async def test_pauses_grow_until_a_connection_lasts(self):
        pauses = Pauses()
        self.assertEqual([pauses.after(1.0) for _ in range(7)], [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0])
        self.assertEqual(pauses.after(5.1), 0.1)
        self.assertEqual(pauses.after(1.0), 0.2)

    async def test_it_leaves_a_node_that_does_not_welcome_it(self):
        host = Host()

        @host.job
        async def run(job):
            pass

        with mock.patch("tenure._attach.WELCOME", 0.05):
            serving = await self.attach(host)
            for _ in range(2):
                tenure = await self.greeted()
            host.bye()
            self.assertEqual(await asyncio.wait_for(serving, 10), 0)

    async def test_without_jobs_it_ends_though_nobody_answers_its_bye(self):
        host = Host()

        @host.job
        async def run(job):
            pass

        with mock.patch("tenure._attach.LOOK_AFTER", 0.05):
            serving = await self.attach(host)
            tenure = await self.next()
            host.bye()
            await tenure.hear("bye")
            self.assertEqual(await asyncio.wait_for(serving, 10), 0)

    async def test_one_that_is_cancelled_leaves_no_connection(self):
        host, ended = Host(), asyncio.Event()

        @host.job
        async def run(job):
            try:
                await asyncio.sleep(1000)
            finally:
                ended.set()

        serving = await self.attach(host)
        tenure = await self.next()
        tenure.lease()
        tenure.start()
        await tenure.hear("started")
        serving.cancel()
        await asyncio.wait_for(ended.wait(), 10)
        self.assertEqual(await asyncio.wait_for(tenure.reader.read(), 10), b"")

    async def test_it_attaches_only_where_the_clock_is_the_node_s(self):
        host = Host()

        @host.job
        async def run(job):
            pass

        with mock.patch("sys.platform", "darwin"), self.assertRaises(RuntimeError):
            await host.attach(self.path)

    async def child(self, ttl, left, source=STUBBORN, variable="TENURE_ATTACH"):
        """A host in a process of its own, with a job that takes no notice of its end."""
        await self.listen()
        child = subprocess.Popen(
            [sys.executable, "-c", source],
            env={variable: self.path, "PYTHONPATH": os.path.join(os.path.dirname(__file__), "..")},
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        tenure = await self.next(ttl)
        tenure.lease(left=left)
        tenure.start()
        await tenure.hear("started")
        return child, tenure

    async def status(self, child):
        return await asyncio.get_running_loop().run_in_executor(None, child.wait, 10)

    async def test_the_process_ends_with_a_job_that_outlives_its_lease(self):
        stuck = """
from tenure import _tell
_tell._LAST = 1000
_tell._write = lambda text: time.sleep(1000)
class Stuck:
    def flush(self):
        time.sleep(1000)
"""
        for source in (STUBBORN, f"import sys, time{stuck}sys.stdout = Stuck(){STUBBORN}"):
            child, _ = await self.child(ttl=0.1, left=0.3, source=source)
            self.assertEqual(await self.status(child), 1)

    async def test_the_process_waits_for_no_thread_after_its_connection(self):
        source = STUBBORN.replace("cancel=False", "").replace("asyncio.sleep(1000)", "asyncio.to_thread(time.sleep, 1000)")
        child, tenure = await self.child(60, 60, "import time" + source, "TENURE_SOCKET")
        tenure.writer.close()
        self.assertEqual(await self.status(child), 1)

    async def test_a_signal_that_was_ignored_stays_ignored(self):
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            child, tenure = await self.child(ttl=60, left=60)
        finally:
            signal.signal(signal.SIGINT, before)
        child.send_signal(signal.SIGINT)
        tenure.say(op="ping", n=1)
        await tenure.hear("pong")
        child.send_signal(signal.SIGTERM)
        await tenure.hear("bye")
        # The second end of the process is by SIGTERM still.
        child.send_signal(signal.SIGINT)
        child.send_signal(signal.SIGTERM)
        self.assertEqual(await self.status(child), -signal.SIGTERM)

    async def test_a_second_signal_ends_the_process(self):
        child, tenure = await self.child(ttl=60, left=60)
        child.send_signal(signal.SIGINT)
        await tenure.hear("bye")
        child.send_signal(signal.SIGTERM)
        self.assertEqual(await self.status(child), -signal.SIGTERM)


if __name__ == "__main__":
    unittest.main()

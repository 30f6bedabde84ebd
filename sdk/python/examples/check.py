"""The host that `tenure host --check` plays with: docs/host-protocol.md lists what its jobs have to do.

tenure host --check -- python3 sdk/python/examples/check.py
"""

import asyncio
import base64
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from tenure import Host, Moved, Park, Refuse, RequestError, Restart  # noqa: E402

host = Host(name="check", version="1")


def what(job):
    try:
        does = json.loads(job.payload)
    except ValueError:
        return {"do": "payload"}
    return does if isinstance(does, dict) else {"do": "payload"}


@host.job(ready=False)
async def run(job):
    does = what(job)
    do, text, ms = does["do"], does.get("text", ""), does.get("ms", 0)
    if do == "refuse":
        raise Refuse(retry_after=ms / 1000)
    if do == "elsewhere":
        raise Refuse(elsewhere=True)
    if do == "start_fail":
        raise RuntimeError(text)
    if do == "start_park":
        raise Park(text)
    if do == "slow_start":
        await asyncio.sleep(ms / 1000)
    job.ready()
    if do == "payload":
        job.status("payload " + base64.b64encode(job.payload).decode())
    elif do == "key":
        job.status("key " + base64.b64encode(job.key_bytes).decode())
    elif do == "facts":
        job.status(f"token {job.token} attempt {job.attempt} id {job.id}")
    elif do == "state":
        job.status("none" if job.checkpoint_in is None else "state " + job.checkpoint_in.decode())
    elif do == "end":
        await asyncio.sleep(ms / 1000)
        return
    elif do == "fail":
        raise RuntimeError(text)
    elif do == "park":
        raise Park(text)
    elif do == "progress":
        job.progress()
    elif do == "leave":
        try:
            job.leave(text)
        except RequestError as error:
            job.status("error " + error.code)
    elif do == "block":
        time.sleep(ms / 1000)
        job.status("blocked")
    elif do == "bye":
        host.bye()
    elif do == "save":
        try:
            await job.checkpoint(text)
            job.status("saved")
        except RequestError as error:
            job.status("error " + error.code)
    elif do == "call":
        await call(job, does)
    try:
        async for note in job.notifications():
            await take(job, note)
    finally:
        if do == "slow_stop":
            await asyncio.sleep(ms / 1000)


async def call(job, does):
    try:
        if does["op"] == "get":
            answer = await host.pool.get(does["key"])
        elif does["op"] == "ask":
            answer = (await host.pool.ask(does["key"], does["body"])).decode()
        else:
            answer = await host.pool.dispatch(does["key"], does["body"], policy="on-failure")
        job.status("ok " + json.dumps(answer, sort_keys=True))
    except RequestError as error:
        job.status("error " + error.code)


async def take(job, note):
    if note.body == b"refuse" and note.refusals == 0:
        note.refuse(0.02, "not yet")
        return
    if note.body == b"slow":
        await asyncio.sleep(3)
    if note.body == b"lease":
        job.status("lease over" if job.lease.left == 0 else "lease holds")
    job.status("note " + note.body.decode())


@host.ask
async def answer(job, body):
    if body == b"no":
        raise Refuse("no")
    if body == b"moved":
        raise Moved
    if body == b"slow":
        await asyncio.sleep(3)
    return job.key + ":" + body.decode()


@host.update
async def update(job, payload):
    if payload.startswith(b"restart"):
        raise Restart
    job.status("update " + payload.decode())


if __name__ == "__main__":
    host.run()

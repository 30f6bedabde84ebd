"""A feed per key: it keeps its place in a checkpoint, and answers how far it is.

    tenure host --pool feeds -- python3 sdk/python/examples/feeds.py
    tenure dispatch acme gold
    tenure ask acme where
"""

import asyncio
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from tenure import Host, Refuse  # noqa: E402

host = Host(name="feeds", max_jobs=5000)
places: dict[str, int] = {}


@host.job
async def run(job):
    places[job.key] = int(job.checkpoint_in or b"0")
    try:
        while True:
            await asyncio.sleep(1)
            job.lease.check()  # raises once the lease is over
            places[job.key] += 1  # write to the world here, with job.token as the fence
            if places[job.key] % 10 == 0:
                await job.checkpoint(str(places[job.key]))
    finally:
        job.leave(str(places.pop(job.key)))


@host.ask
async def answer(job, body):
    if body != b"where":
        raise Refuse("ask where")
    return f"{job.key} is at {places[job.key]}"


if __name__ == "__main__":
    host.run()

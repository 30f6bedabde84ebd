"""Host the jobs of a Tenure pool: thousands of keys in one process. Standard library only.

    from tenure import Host

    host = Host(max_jobs=5000)

    @host.job
    async def run(job):
        ...

    host.run()

Start it with `tenure host --pool feeds -- python feeds.py`.
"""

from ._errors import Fenced, LeaseLost, Moved, Park, Refuse, RequestError, Restart
from ._host import Host
from ._job import Job, Lease, Notification
from ._pool import Pool

__all__ = [
    "Fenced",
    "Host",
    "Job",
    "Lease",
    "LeaseLost",
    "Moved",
    "Notification",
    "Park",
    "Pool",
    "Refuse",
    "RequestError",
    "Restart",
]
__version__ = "0.1.0"

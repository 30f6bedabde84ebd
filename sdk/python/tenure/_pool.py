"""The pool, as a host uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._wire import millis, put, take

if TYPE_CHECKING:
    from ._host import Host


class Pool:
    """Requests to the pool. Each raises RequestError. `within` is in seconds."""

    def __init__(self, host: Host):
        self._host = host

    async def dispatch(self, key: str | bytes, payload: bytes | str = b"", **options: Any) -> None:
        """Starts a job, and returns when it runs. Options: `policy` (never, on-failure, always), `id`, `within`."""
        await self._ask("dispatch", key, payload, options)

    async def ensure(self, key: str | bytes, payload: bytes | str = b"", **options: Any) -> bool:
        """As dispatch, but a job that is there already is fine. Returns whether this call has started its job."""
        return bool((await self._ask("ensure", key, payload, options)).get("started"))

    async def submit(self, key: str | bytes, payload: bytes | str = b"", **options: Any) -> str:
        """As dispatch, but returns when the pool has accepted the job, with the id of the dispatch."""
        return str((await self._ask("submit", key, payload, options))["id"])

    async def stop(self, key: str | bytes, *, until_stopped: bool = False, within: float | None = None) -> None:
        """Stops a job, and waits for its end if `until_stopped`."""
        await self._ask("stop", key, None, {"until_stopped": until_stopped, "within": within})

    async def notify(self, key: str | bytes, body: bytes | str = b"") -> None:
        """Leaves a notification for a job."""
        await self._ask("notify", key, body, {})

    async def ask(
        self, key: str | bytes, body: bytes | str = b"", *, idempotent: bool = False, within: float | None = None
    ) -> bytes:
        """Asks the owner of a job, and returns its answer."""
        answer = await self._ask("ask", key, body, {"idempotent": idempotent, "within": within})
        return take(answer, "body") or b""

    async def get(self, key: str | bytes) -> dict[str, Any] | None:
        """A job: `key`, `state`, `token`, `worker`, `attempts`. None if there is none."""
        return (await self._ask("get", key, None, {})).get("job")

    async def list(self, limit: int = 100, next: str | None = None) -> tuple[list[dict[str, Any]], str | None]:
        """About so many jobs, and where the list continues. None: it does not."""
        request: dict[str, Any] = {"op": "list", "limit": max(0, int(limit))}
        if next is not None:
            request["next"] = str(next)
        answer = await self._host._request(request)
        return answer.get("jobs") or [], answer.get("next")

    async def _ask(
        self, op: str, key: str | bytes, body: bytes | str | None, options: dict[str, Any]
    ) -> dict[str, Any]:
        known = {"policy", "id", "within", "until_stopped", "idempotent"}
        if not options.keys() <= known:
            raise TypeError(f"unknown options: {', '.join(sorted(options.keys() - known))}")
        request = put({"op": op}, "key", key)
        if body is not None:
            put(request, "body", body)
        within = options.pop("within", None)
        if within is not None:
            request["within_ms"] = millis(within)
        for name, value in options.items():
            if value not in (None, False):
                request[name] = str(value) if name in ("policy", "id") else True
        return await self._host._request(request)

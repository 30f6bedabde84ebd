"""What handlers raise, and what requests raise."""

from __future__ import annotations

#: The longest text of an error.
TEXT_MAX = 1000


class Refuse(Exception):
    """This host does not take it now. Raise it before a job is ready, or as the answer to an ask.

    A job goes back to the queue: for `retry_after` seconds, or for a growing pause. With `elsewhere` another worker is asked
    at once.
    """

    def __init__(self, text: str = "", *, retry_after: float | None = None, elsewhere: bool = False):
        super().__init__(text)
        self.retry_after = None if retry_after is None else float(retry_after)
        self.elsewhere = elsewhere


class Moved(Exception):
    """The job's next owner shall have this ask. Raise it as the answer to an ask that the job did nothing with: its token was
    refused, or it is about to end. The asker looks for the owner again, until its time is over.
    """


class Park(Exception):
    """No further attempt can succeed: the job is parked, with this text."""


class Restart(Exception):
    """A running job cannot take another payload as it is: it starts again with it."""


class LeaseLost(Exception):
    """The lease of the job is over: another worker may have it."""


class RequestError(Exception):
    """A request to the pool failed. `code` is for programs: `exists`, `not_found`, `refused`, `late` and so on."""

    def __init__(self, code: str, text: str):
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text


class Fenced(RequestError):
    """The job is not this host's any more, so its checkpoint was not kept."""


def text_of(error: BaseException) -> str:
    """The text of an error, as Tenure is told it."""
    return f"{type(error).__name__}: {error}"[:TEXT_MAX]

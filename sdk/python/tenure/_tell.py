"""All that the SDK tells on standard error. A thread writes, so that no job waits for a reader, or fails without a reader."""

from __future__ import annotations

import atexit
import os
import queue
import sys
import threading
import traceback

#: How many texts may wait. Further texts are dropped.
_WAITING = 1000
#: How long the end of the process waits for the last texts, in seconds.
_LAST = 1.0


class _Teller:
    def __init__(self) -> None:
        self._texts: queue.Queue[str] = queue.Queue(_WAITING)
        self._thread: threading.Thread | None = None
        #: How many texts found no room, and no note has said so yet.
        self._dropped = 0
        self._counting = threading.Lock()

    def put(self, text: str) -> None:
        if self._thread is None:
            # A daemon: the process does not wait for a write that never returns.
            thread = threading.Thread(target=self._write, name="tenure-tell", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                # The machine has no thread left, or the process ends.
                self._drop()
                return
            self._thread = thread
            atexit.register(self.end)
        try:
            self._texts.put_nowait(text)
        except queue.Full:
            self._drop()

    def _drop(self) -> None:
        with self._counting:
            self._dropped += 1

    def end(self, within: float | None = None) -> None:
        """Waits until all texts are written, or for this time in seconds."""
        with self._texts.all_tasks_done:
            self._texts.all_tasks_done.wait_for(
                lambda: not self._texts.unfinished_tasks, _LAST if within is None else within
            )

    def _write(self) -> None:
        while True:
            text = self._texts.get()
            try:
                _write(text)
                with self._counting:
                    dropped, self._dropped = self._dropped, 0
                if dropped:
                    _write(f"tenure: {dropped} texts are missing, nobody took them\n")
            except Exception:
                # Nobody takes the text, and no job may fail for that.
                pass
            self._texts.task_done()


def _write(text: str) -> None:
    if sys.stderr is None:
        return
    try:
        number = sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        # The program has put another object in its place.
        print(text, end="", file=sys.stderr, flush=True)
        return
    # Past the object and the lock in it: the end of the process waits for that lock.
    data = text.encode("utf-8", "backslashreplace")
    while data:
        data = data[os.write(number, data) :]


_teller = _Teller()


def tell(text: str) -> None:
    """Tells this on a line."""
    _teller.put(f"{text}\n")


def tell_error() -> None:
    """Tells the exception that is handled now."""
    _teller.put(traceback.format_exc())


def exit_now(status: int, within: float | None = None) -> None:
    """Ends the process with what can be written in this time in seconds, and waits for no task or thread."""
    within = _LAST if within is None else within
    _teller.end(within / 2)
    flushing = threading.Thread(target=_flush, daemon=True)
    try:
        flushing.start()
        flushing.join(within / 2)
    except RuntimeError:
        # The machine has no thread left.
        pass
    os._exit(status)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            # Nobody takes the rest.
            pass

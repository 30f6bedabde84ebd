"""What the logs of keys say: which key ran twice at one time, and how soon it ran again.

A line of a log has µs of one clock of the machine, what, key and token. What is begin, work, refrain or end. A job refrains from a
piece of work when its lock or lease says so.
"""

import collections
import statistics


class Run:
    """One run of a key, in the process that wrote this log."""

    def __init__(self, key, log, begun, token):
        self.key, self.log, self.begun, self.token = key, log, begun, token
        self.worked, self.refrained, self.ended = [], [], False


class Double:
    """A piece of work of a run while a later run had begun, and whether its lock or lease allowed it."""

    def __init__(self, run, later, us, allowed):
        self.run, self.later, self.us, self.allowed = run, later, us, allowed

    def is_told(self):
        """Whether a resource that remembers the highest token refuses it."""
        return self.run.token is not None and self.later.token > self.run.token


def parsed(lines):
    """The lines of a log. A process that is killed may leave the half of a line, without its end."""
    for line in lines:
        if line.endswith("\n"):
            us, what, key, token = line.split()
            yield int(us), what, key, None if token == "-" else int(token)


class History:
    """All runs of all keys, from the logs of all processes, as far as they have been read."""

    def __init__(self):
        self.runs = collections.defaultdict(list)
        self.latest = {}

    def read(self, log, lines):
        for us, what, key, token in parsed(lines):
            if what == "begin":
                run = self.latest[log, key] = Run(key, log, us, token)
                self.runs[key].append(run)
                continue
            run = self.latest[log, key]
            if what == "end":
                run.ended = True
            else:
                (run.worked if what == "work" else run.refrained).append(us)

    def held_by(self, log):
        """The keys that run in this process."""
        return {key for (of, key), run in self.latest.items() if of == log and not run.ended}

    def again(self, keys, log, since):
        """When each of these keys began to run in another process after that moment: the first time, if any."""
        begun = {key: [run.begun for run in self.runs[key] if run.log != log and run.begun > since] for key in keys}
        return {key: min(times) for key, times in begun.items() if times}

    def doubles(self):
        """The pieces of work of a run after the begin of the next run of its key."""
        for runs in self.runs.values():
            in_order = sorted(runs, key=lambda run: run.begun)
            for run, later in zip(in_order, in_order[1:]):
                for pieces, allowed in ((run.worked, True), (run.refrained, False)):
                    yield from (Double(run, later, us, allowed) for us in pieces if us > later.begun)


def verdict(history, keys, log, signalled, resumed=None):
    """The figures of an experiment: the process with this log and these keys was signalled at that moment, and perhaps resumed."""
    again = history.again(keys, log, signalled)
    waits = sorted((us - signalled) / 1e6 for us in again.values())
    figures = {"lost": len(keys), "again": len(waits), "again_p50_s": statistics.median(waits) if waits else None,
               "again_max_s": waits[-1] if waits else None}
    doubles = list(history.doubles())
    # Jobs that ask before each piece of work, and jobs that do all pieces until they are ended.
    for suffix, of in (("", [double for double in doubles if double.allowed]), ("_unasked", doubles)):
        figures[f"twice{suffix}"] = len({double.run.key for double in of})
        figures[f"told{suffix}"] = len({double.run.key for double in of if double.is_told()})
        if resumed is not None:
            figures[f"twice_ms{suffix}"] = max(((double.us - resumed) / 1e3 for double in of), default=None)
    return figures

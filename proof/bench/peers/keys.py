"""What it costs to hold keys, and what becomes of them when their process is killed or stands still."""

import os
import pathlib
import signal
import tempfile
import time

import history
from program import Failed, Program

# Keys of an experiment, in this number of processes. Each job does a piece of work after each pause.
PROCESSES, PAUSE_MS = 4, 250
# Seconds: until keys have found their places; until they run again; how long a process that stood still is watched afterwards.
SETTLE, AGAIN, AFTER = 8, 150, 20
# Seconds between two looks at the logs.
LOOK = 0.2


def now():
    """µs of the clock of the logs."""
    return time.monotonic_ns() // 1000


def held(redis, command, jobs, slots, seconds):
    """The cost of jobs that run and do nothing, in a time that has several renewals."""
    redis.command("FLUSHALL")
    with Program(command, ("throughput", jobs, slots), redis) as program:
        program.figures()
        before, cpu, began = redis.usage(), program.cpu(), time.monotonic()
        time.sleep(seconds)
        used, cpu, took = redis.usage().since(before), program.cpu() - cpu, time.monotonic() - began
        # A second line says how many runs have ended by then. The program is killed after it: what ends the jobs is not measured.
        program.process.stdin.close()
        ended = program.figures()["ended"]
        return {"jobs": jobs, "seconds": took, "ended": ended, "scripts_per_s": used.scripts / took, "commands_per_s": used.commands / took,
                "redis_percent": used.cpu_us / took / 1e4, "program_percent": 100 * cpu / took}


class Logs:
    """The logs of all processes, read as they grow."""

    def __init__(self, folder):
        self.paths = [pathlib.Path(folder) / f"log-{number}" for number in range(PROCESSES)]
        self.files, self.history, self.halves = {}, history.History(), {}

    def read(self):
        for number, path in enumerate(self.paths):
            if number not in self.files:
                self.files[number], self.halves[number] = path.open(), ""
            lines = (self.halves[number] + self.files[number].read()).splitlines(keepends=True)
            whole = not lines or lines[-1].endswith("\n")
            self.halves[number] = "" if whole else lines.pop()
            self.history.read(number, lines)
        return self.history

    def until(self, seconds, holds):
        """Reads on until something holds, or for so long. Says whether it does."""
        deadline = time.monotonic() + seconds
        while not holds(self.read()):
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK)
        return True

    def follow(self, seconds):
        """Reads on for so long."""
        self.until(seconds, lambda _: False)

    def close(self):
        for file in self.files.values():
            file.close()


def outage(redis, command, jobs, stands_still):
    """Kills the first of several processes (SIGKILL), or stops it until its keys run elsewhere and lets it go on."""
    redis.command("FLUSHALL")
    with tempfile.TemporaryDirectory() as folder:
        logs, programs = Logs(folder), []
        try:
            for path in logs.paths:
                programs.append(Program(command, ("work", path, PAUSE_MS), redis))
            for program in programs:
                program.figures()
            with Program(command, ("dispatch", jobs), redis) as dispatch:
                dispatch.figures()
                dispatch.end()
            if not logs.until(AGAIN, lambda seen: len(seen.runs) == jobs):
                raise Failed(f"{len(logs.history.runs)} of {jobs} keys have begun after {AGAIN} s")
            logs.follow(SETTLE)
            return judged(logs, programs[0].process.pid, stands_still, jobs)
        finally:
            for program in programs:
                program.__exit__()
            logs.close()


def judged(logs, pid, stands_still, jobs):
    """The outage of the first process, and what its keys came to."""
    signalled = now()
    os.kill(pid, signal.SIGSTOP if stands_still else signal.SIGKILL)
    logs.follow(2 * LOOK)
    keys, resumed = logs.history.held_by(0), None
    logs.until(AGAIN, lambda seen: len(seen.again(keys, 0, signalled)) == len(keys))
    if stands_still:
        resumed = now()
        os.kill(pid, signal.SIGCONT)
        logs.follow(AFTER)
    figures = history.verdict(logs.read(), keys, 0, signalled, resumed)
    return {"jobs": jobs, "processes": PROCESSES, **figures, **({"still_s": (resumed - signalled) / 1e6} if resumed else {})}

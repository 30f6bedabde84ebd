"""Runs Tenure and its peers by turns, each with an idiomatic program of its own, on one Redis in the same minutes.

    make peers     ROUNDS=3 JOBS=20000 SINGLE=500 OUTAGES=1 HOLD=60 KEYS=1000 ONLY="tenure-pool, redlock" PUBLISH=1

Prints the versions, the load of the machine, each run as a line of JSON, and a table of medians. The programs that keep a worker for
each key also hold JOBS keys for HOLD seconds, and lose a process with a part of KEYS keys by SIGKILL and by SIGSTOP, OUTAGES times:
0 leaves that out. ONLY names the peers that are run; then nothing is published. A peer that this machine
cannot have, because a tool is missing or a registry does not answer, is named with the reason, and is no failure. A program
that has all its packages and does not build is a failure, and so is a run of Tenure's own programs that fails: the exit
status is 1. A run that fails, or takes longer than PATIENCE, is named with the reason and is not repeated. The rest
goes on. All measurements go to target/peers/peers.json. With PUBLISH they go to proof/bench/results/peers.json, and the
table and the plot go to docs/performance.md and docs/peers.svg.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import keys
import report
from program import ROOT, Failed, Program, Redis, last_line

HERE = pathlib.Path(__file__).resolve().parent
BUILT = ROOT / "target" / "peers"


def asked(name, otherwise):
    """A number of the environment."""
    return int(os.environ.get(name) or otherwise)


ROUNDS, JOBS, SINGLE = asked("ROUNDS", 3), asked("JOBS", 20_000), asked("SINGLE", 500)
OUTAGES, HOLD, KEYS = asked("OUTAGES", 1), asked("HOLD", 60), asked("KEYS", 1000)
ONLY = [name.strip() for name in (os.environ.get("ONLY") or "").split(",") if name.strip()]
SLOTS = 256


class CannotBeHad(Exception):
    """This machine cannot have a peer: says why."""


class DoesNotBuild(Exception):
    """A peer has all packages, and does not build: says why."""


def run(command, why, failure=DoesNotBuild, **options):
    """Runs a command that prepares a peer."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, **options)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise failure(f"{why}: {error}") from error
    if done.returncode != 0:
        raise failure(f"{why}: {last_line(done.stdout + done.stderr) or done.returncode}")
    return done.stdout


class Rust:
    """A program in Rust, of a workspace."""

    def __init__(self, name, program, folder, package, kind, settings, not_for, writes=()):
        self.name, self.program, self.folder, self.package = name, program, folder, package
        self.kind, self.settings, self.not_for, self.writes = kind, settings, not_for, writes

    def prepare(self):
        environment = {**os.environ, "CARGO_TARGET_DIR": str(BUILT)}
        lock = self.folder / "Cargo.lock"
        try:
            run(["cargo", "fetch", "-q", "--locked"], "its packages do not come", CannotBeHad, cwd=self.folder)
        except CannotBeHad as error:
            # A lock that is behind its packages is a fault of this repository, whatever the registry says.
            raise DoesNotBuild(f"{lock.relative_to(ROOT)} is out of date") if "--locked" in str(error) else error
        run(["cargo", "build", "-q", "--release", "--locked", "--bin", self.program], "its program does not build",
            cwd=self.folder, env=environment)
        version = re.search(rf'name = "{self.package}"\nversion = "([^"]*)"', lock.read_text())
        return [str(BUILT / "release" / self.program)], version[1] if version else "unknown"


class Node:
    """A program on Node, with the packages that it needs."""

    def __init__(self, name, folder, words, packages, kind, settings, not_for, writes=()):
        self.name, self.folder, self.words, self.packages = name, folder, words, packages
        self.kind, self.settings, self.not_for, self.writes = kind, settings, not_for, writes

    def prepare(self):
        if not (shutil.which("node") and shutil.which("npm")):
            raise CannotBeHad("there is no Node")
        place = BUILT / self.folder
        place.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json", "main.mjs"):
            shutil.copy(HERE / self.folder / name, place / name)
        run(["npm", "ci", "--silent"], "its packages do not come", CannotBeHad, cwd=place)
        versions = [json.loads((place / "node_modules" / name / "package.json").read_text())["version"].lstrip("v")
                    for name in self.packages]
        versions[1:] = [f"{name} {version}" for name, version in zip(self.packages[1:], versions[1:])]
        node = run(["node", "--version"], "there is no Node", CannotBeHad).strip()
        return ["node", str(place / "main.mjs"), *self.words], f"{', '.join(versions)}, Node {node.lstrip('v')}"


def empty_module(place):
    """A folder with a module that needs nothing."""
    folder = place / "empty"
    folder.mkdir(exist_ok=True)
    (folder / "go.mod").write_text("module tenure.peers/empty\n")
    return folder


class Pulse:
    """Pulse, in Go."""

    # It takes minutes to start as many keys as the others hold: it has no part in what is measured of keys.
    name, kind, writes = "Pulse", "pool", ()
    settings = "room for 1,000,000 queued jobs, which are 1,000 by default"
    not_for = "short jobs of a queue; its handlers get no token that a resource could check"

    def prepare(self):
        if not shutil.which("go"):
            raise CannotBeHad("there is no Go")
        go = run(["go", "env", "GOVERSION"], "there is no Go", CannotBeHad).strip()
        place = BUILT / "pulse"
        place.mkdir(parents=True, exist_ok=True)
        for name in ("go.mod", "main.go"):
            shutil.copy(HERE / "pulse" / name, place / name)
        module, needed = (re.search(rf"^\s*{what}", (place / "go.mod").read_text(), re.MULTILINE)
                          for what in (r"(goa\.design/pulse) (v\S+)", r"go (\d+)\.(\d+)"))
        wanted = needed[0].strip()
        # An old Go reads no such file, so its modules are asked for outside of it.
        try:
            run(["go", "mod", "download", f"{module[1]}@{module[2]}"], "no module comes", CannotBeHad, cwd=empty_module(place))
        except CannotBeHad as error:
            why = str(error).rsplit(": ", 1)[-1]
            raise CannotBeHad(f"its modules do not come ({why}), and {module[2]} needs {wanted} where this is {go}") from error
        # From 1.21 on, it gets the toolchain that the module asks for by itself.
        ours = tuple(map(int, re.findall(r"\d+", go)[:2]))
        if ours < (1, 21) and ours < tuple(map(int, needed.groups())):
            raise CannotBeHad(f"{module[2]} needs {wanted}, and this is {go}")
        # It adds the modules that the build needs; `go mod tidy` also asks for those of their tests.
        run(["go", "mod", "download", "-x"], "its modules do not come", CannotBeHad, cwd=place)
        run(["go", "build", "-mod=mod", "-o", "pulse", "."], "its program does not build", cwd=place)
        version = re.search(r"goa.design/pulse (v\S+)", (place / "go.mod").read_text())
        return [str(place / "pulse")], f"{version[1] if version else 'unknown'}, {go}"


PEERS = [
    Rust("tenure-jobs", "peers-jobs", ROOT, "tenure-jobs", "queue", "adds all jobs in one call; done jobs are removed",
         "workers outside Rust; logs of events; workflows that replay their steps"),
    Node("BullMQ", "bullmq", [], ["bullmq"], "queue", "adds 1,000 jobs a call; done jobs are removed",
         "an owner of a key for as long as it lives; groups are in its paid edition"),
    Rust("apalis-redis", "apalis", HERE / "apalis", "apalis-redis", "queue",
         "adds 1,000 jobs a call while at most 3,000 wait; an idle worker looks every 100 ms; keeps the results of done jobs",
         "long queues: 1.0.0 fails where 8,000 jobs are due, and an idle worker begins only at its next look"),
    Rust("tenure-pool", "peers-pool", ROOT, "tenure-pool", "pool", "the defaults: a lease of 10 s",
         "short jobs of a queue, which are the work of tenure-jobs",
         writes=("asks `lease().check()`", "asks nothing, and waits for its cancellation")),
    Node("BullMQ + redlock", "bullmq-keys", ["redlock"], ["bullmq", "redlock"], "pool",
         "as BullMQ's own lock; each job runs in redlock's `using`, with a lock of 10 s",
         "jobs without end: BullMQ renews its lock of each, too; a lock has no token that a resource could check",
         writes=("asks `signal.aborted`",)),
    Node("BullMQ's own lock", "bullmq-keys", ["own"], ["bullmq"], "pool",
         "adds 1,000 jobs a call, with the key as the id; else the defaults: a lock of 30 s, and a look for lost ones every 30 s; "
         "a job whose lock is lost is cancelled",
         "jobs without end, which fail when they are lost twice; a lock has no token that a resource could check",
         writes=("asks `signal.aborted`",)),
    Pulse(),
]


def measure(redis, command, *arguments):
    """One run on an empty server, up to the line that the program prints."""
    redis.command("FLUSHALL")
    before = redis.usage()
    with Program(command, arguments, redis) as program:
        figures = program.figures()
        used = redis.usage().since(before)
        program.end()
    try:
        figures["redis_us_per_job"] = used.cpu_us / figures["jobs"]
        figures["commands_per_job"] = used.commands / figures["jobs"]
    except (KeyError, TypeError) as error:
        raise Failed(f"it printed no figures: {figures!r}") from error
    return figures


def load():
    return [round(average, 2) for average in os.getloadavg()]


def turns(redis, ready):
    """What is measured, in this order: the round, the peer, what it is, and how."""
    for turn in range(ROUNDS):
        for peer, command, _ in ready:
            for what, arguments in (("throughput", (JOBS, SLOTS)), ("latency", (SINGLE,))):
                yield turn, peer, what, lambda: measure(redis, command, what, *arguments)
    for turn in range(OUTAGES):
        for peer, command, _ in ready:
            if peer.writes:
                yield turn, peer, "held", lambda: keys.held(redis, command, JOBS, SLOTS, HOLD)
                yield turn, peer, "kill", lambda: keys.outage(redis, command, KEYS, stands_still=False)
                yield turn, peer, "stop", lambda: keys.outage(redis, command, KEYS, stands_still=True)


def rounds(redis, ready):
    """All runs, and what failed."""
    runs, failed = [], {}
    for turn, peer, what, measured in turns(redis, ready):
        if (peer.name, what) in failed:
            continue
        line = {"peer": peer.name, "what": what, "round": turn + 1}
        try:
            line.update(measured())
        except Failed as error:
            failed[peer.name, what] = line["failed"] = str(error)
        print(json.dumps(line), flush=True)
        runs.append(line)
    return runs


def main():
    peers, ready, faults = [], [], []
    for peer in PEERS:
        if ONLY and not any(name.lower() in peer.name.lower() for name in ONLY):
            continue
        row = {"name": peer.name, "kind": peer.kind, "settings": peer.settings, "not_for": peer.not_for, "writes": peer.writes}
        try:
            command, row["version"] = peer.prepare()
            ready.append((peer, command, row["version"]))
        except (CannotBeHad, DoesNotBuild) as error:
            row["missing"] = str(error)
            if isinstance(error, DoesNotBuild):
                faults.append(f"{peer.name}: {error}")
        print(f"{peer.name}: {row.get('version') or row['missing']}", flush=True)
        peers.append(row)
    if not ready:
        raise SystemExit("none of the programs is ready here")
    with Redis() as redis:
        measured = {
            "at": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "redis": redis.version, "cores": os.cpu_count(),
            "rounds": ROUNDS, "jobs": JOBS, "slots": SLOTS, "single": SINGLE,
            "outages": OUTAGES, "hold": HOLD, "keys": KEYS, "load_before": load(), "peers": peers,
        }
        print(report.setting(measured), flush=True)
        measured["runs"] = rounds(redis, ready)
    measured["load_after"] = load()
    print(f"load average {report.averages(measured['load_after'])} after\n\n{report.tables(measured)}")
    ours = {peer.name for peer, *_ in ready if peer.name.startswith("tenure-")}
    faults += [f"{line['peer']}: {line['what']}: {line['failed']}" for line in measured["runs"] if "failed" in line and line["peer"] in ours]
    if os.environ.get("PUBLISH") and not faults and not ONLY:
        report.publish(measured)
    else:
        (BUILT / "peers.json").write_text(report.raw(measured))
        print(f"all of it is in {(BUILT / 'peers.json').relative_to(ROOT)}")
    if faults:
        raise SystemExit("\n".join(["peers: FAILED", *faults]))
    return 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--help"]:
        sys.exit(print(__doc__))
    sys.exit(main())

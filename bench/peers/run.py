"""Runs Tenure and its peers by turns, each with an idiomatic program of its own, on one Redis in the same minutes.

    make peers     ROUNDS=3 JOBS=20000

Prints the versions, the load of the machine, each run as a line of JSON, and a table of medians. A peer that cannot be
had on this machine is named with the reason, and is no failure.
"""

import json
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ROUNDS = int(os.environ.get("ROUNDS") or 3)
JOBS = int(os.environ.get("JOBS") or 20_000)
SLOTS = 256
SINGLE = 500
# Longer than any run takes on the slowest machine.
PATIENCE = 300


class CannotBeHad(Exception):
    """A peer is not to be had here: says why."""


def run(command, why, **options):
    """Runs a command that prepares a peer."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, **options)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotBeHad(f"{why}: {error}") from error
    if done.returncode != 0:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        raise CannotBeHad(f"{why}: {lines[-1] if lines else done.returncode}")
    return done.stdout


class Rust:
    """Programs of the package beside this file."""

    def __init__(self, name, program, package, kind):
        self.name, self.program, self.package, self.kind = name, program, package, kind

    def prepare(self):
        target = ROOT / "target" / "peers"
        environment = {**os.environ, "CARGO_TARGET_DIR": str(target)}
        run(["cargo", "build", "-q", "--release", "--locked", "--bin", self.program], "it does not build",
            cwd=HERE / "rust", env=environment)
        lock = (HERE / "rust" / "Cargo.lock").read_text()
        version = re.search(rf'name = "{self.package}"\nversion = "([^"]*)"', lock)
        return [str(target / "release" / self.program)], version[1] if version else "unknown"


class Bullmq:
    """BullMQ, on Node."""

    name, kind = "BullMQ", "queue"

    def prepare(self):
        if not (shutil.which("node") and shutil.which("npm")):
            raise CannotBeHad("there is no Node")
        place = ROOT / "target" / "peers" / "bullmq"
        place.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json", "main.mjs"):
            shutil.copy(HERE / "bullmq" / name, place / name)
        run(["npm", "ci", "--silent"], "npm does not get it", cwd=place)
        version = json.loads((place / "node_modules/bullmq/package.json").read_text())["version"]
        node = run(["node", "--version"], "there is no Node").strip()
        return ["node", str(place / "main.mjs")], f"{version}, Node {node.lstrip('v')}"


class Pulse:
    """Pulse, in Go."""

    name, kind = "Pulse", "pool"

    def prepare(self):
        if not shutil.which("go"):
            raise CannotBeHad("there is no Go")
        go = run(["go", "env", "GOVERSION"], "there is no Go").strip()
        needed = re.search(r"^go (\d+)\.(\d+)", (HERE / "pulse" / "go.mod").read_text(), re.MULTILINE)
        if tuple(map(int, re.findall(r"\d+", go)[:2])) < tuple(map(int, needed.groups())):
            raise CannotBeHad(f"it needs {needed[0]}, and this is {go}")
        place = ROOT / "target" / "peers" / "pulse"
        place.mkdir(parents=True, exist_ok=True)
        for name in ("go.mod", "main.go"):
            shutil.copy(HERE / "pulse" / name, place / name)
        run(["go", "mod", "tidy"], "its modules do not come", cwd=place)
        run(["go", "build", "-o", "pulse", "."], "it does not build", cwd=place)
        version = re.search(r"goa.design/pulse (v\S+)", (place / "go.mod").read_text())
        return [str(place / "pulse")], f"{version[1] if version else 'unknown'}, {go}"


PEERS = [
    Rust("tenure-jobs", "jobs", "tenure-jobs", "queue"),
    Bullmq(),
    Rust("apalis-redis", "apalis", "apalis-redis", "queue"),
    Rust("tenure-pool", "pool", "tenure-pool", "pool"),
    Pulse(),
]


class Redis:
    """A private server without persistence, over TCP."""

    def __enter__(self):
        binary = subprocess.run([ROOT / "scripts/redis-server", "--path"], capture_output=True, text=True, check=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.folder = tempfile.mkdtemp()
        arguments = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", self.folder]
        self.process = subprocess.Popen([binary.stdout.strip(), *arguments], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while True:
            try:
                self.version = self.info("server", "redis_version")
                return self
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def command(self, *words):
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall((" ".join(words) + "\r\n").encode())
            stream = connection.makefile("rb")
            head = stream.readline()
            return stream.read(int(head[1:])).decode() if head.startswith(b"$") else head.decode()

    def info(self, section, name):
        return re.search(rf"^{name}:(\S+)", self.command("INFO", section), re.MULTILINE)[1]

    def cpu(self):
        return sum(float(self.info("cpu", f"used_cpu_{kind}")) for kind in ("user", "sys"))


def measure(redis, command, *arguments):
    """One run on an empty server."""
    redis.command("FLUSHALL")
    environment = {**os.environ, "REDIS_URL": f"redis://127.0.0.1:{redis.port}"}
    before = redis.cpu()
    done = subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE,
                          check=False, env=environment)
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} {arguments} failed: {done.stderr.strip()}")
    figures = json.loads(done.stdout.strip().splitlines()[-1])
    figures["redis_us_per_job"] = 1e6 * (redis.cpu() - before) / figures["jobs"]
    return figures


def load():
    return " ".join(f"{average:.2f}" for average in os.getloadavg())


def main():
    ready, missing = [], []
    for peer in PEERS:
        try:
            ready.append((peer, *peer.prepare()))
        except CannotBeHad as error:
            missing.append((peer, str(error)))
    runs = {}
    with Redis() as redis:
        print(f"{time.strftime('%F %R', time.gmtime())} UTC, Redis {redis.version} over TCP without persistence, "
              f"{os.cpu_count()} cores, load average {load()}")
        print(f"{ROUNDS} rounds by turns: {JOBS} jobs of 100 bytes with {SLOTS} slots, then {SINGLE} jobs one by one")
        for _ in range(ROUNDS):
            for peer, command, version in ready:
                for what, arguments in (("throughput", (JOBS, SLOTS)), ("latency", (SINGLE,))):
                    figures = measure(redis, command, what, *arguments)
                    print(json.dumps({"peer": peer.name, "version": version, "what": what, **figures}), flush=True)
                    runs.setdefault((peer.name, what), []).append(figures)
        print(f"load average {load()}\n")
    for kind, title in (("queue", "jobs of a queue"), ("pool", "jobs with a worker of their own, dispatched until started")):
        print(f"| {title} | version | jobs/s | Redis, µs a job | one by one, p50 ms | p99 ms |")
        print("|---|---|---:|---:|---:|---:|")
        for peer, _, version in (row for row in ready if row[0].kind == kind):
            many, single = runs[peer.name, "throughput"], runs[peer.name, "latency"]

            def median(rows, figure):
                return statistics.median(figure(row) for row in rows)

            print(f"| {peer.name} | {version} | {median(many, lambda row: row['jobs'] / row['seconds']):,.0f} | "
                  f"{median(many, lambda row: row['redis_us_per_job']):.1f} | "
                  f"{median(single, lambda row: row['p50_ms']):.2f} | {median(single, lambda row: row['p99_ms']):.2f} |")
        for peer, why in (row for row in missing if row[0].kind == kind):
            print(f"| {peer.name} | – | not to be had here: {why} | | | |")
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The programs that are measured: started, asked and ended; and the private Redis that they share."""

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
# Seconds. Longer than any run takes that makes progress, on the slowest machine.
PATIENCE = 300
# What the kernel counts CPU times of processes in.
TICKS = os.sysconf("SC_CLK_TCK")
# Commands that run a script.
OF_SCRIPTS = {"evalsha", "eval", "evalsha_ro", "eval_ro", "fcall", "fcall_ro"}


class Failed(Exception):
    """A run failed: says how."""


def last_line(text):
    """The last line that says something."""
    lines = [line.strip() for line in text.replace(f"{ROOT}/", "").splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else ""


class Program:
    """A running program. It prints a line of JSON, and ends when its input does. It is killed when this is left."""

    def __init__(self, command, arguments, redis):
        environment = {**os.environ, "REDIS_URL": f"redis://127.0.0.1:{redis.port}"}
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([*command, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, text=True, env=environment)
        self.late = False
        self.impatience = threading.Timer(PATIENCE, self.is_late)
        self.impatience.start()

    def is_late(self):
        self.late = True
        self.process.kill()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.impatience.cancel()
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            stream.close()

    def failure(self, otherwise):
        if self.late:
            return Failed(f"not done after {PATIENCE} s")
        self.errors.seek(0)
        return Failed(last_line(self.errors.read()) or otherwise)

    def figures(self):
        """The line that it prints, once all that is measured has happened."""
        line = self.process.stdout.readline()
        try:
            return dict(json.loads(line))
        except (ValueError, TypeError) as error:
            # A program that fails ends by itself.
            self.end()
            raise Failed(f"it printed no figures: {line.strip()!r}") from error

    def end(self):
        """Ends its input, and waits for its own end."""
        self.process.stdin.close()
        status = self.process.wait()
        if status != 0:
            raise self.failure(f"exit status {status}")

    def cpu(self):
        """Seconds of CPU time."""
        # The name, in parentheses, may have spaces.
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


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

    def usage(self):
        """What it has done since it was started: CPU time in µs, commands with those of scripts, and calls of scripts."""
        cpu = sum(float(self.info("cpu", f"used_cpu_{kind}")) for kind in ("user", "sys"))
        counts = re.findall(r"^cmdstat_([^:|]+)\S*?:calls=(\d+)", self.command("INFO", "commandstats"), re.MULTILINE)
        scripts = sum(int(count) for name, count in counts if name in OF_SCRIPTS)
        return Usage(1e6 * cpu, sum(int(count) for _, count in counts), scripts)


class Usage:
    """What Redis has done, up to a moment or between two."""

    def __init__(self, cpu_us, commands, scripts):
        self.cpu_us, self.commands, self.scripts = cpu_us, commands, scripts

    def since(self, before):
        return Usage(self.cpu_us - before.cpu_us, self.commands - before.commands, self.scripts - before.scripts)

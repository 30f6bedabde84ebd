"""A host in 100 lines, without an SDK: it keeps to the protocol until a notification tells it not to.

The payload of a job is a shell script, which runs beside it. Its name is in FOLDER/starts, with its token, whenever it starts.
While a job runs, its host locks a file of its key. A key that runs twice is in FOLDER/overlaps.

The mode "obeys" is for hosts that nobody can kill: until it was told in FOLDER/leases, with its process, and when it has started
which key in FOLDER/times, both in milliseconds by CLOCK_MONOTONIC. Its jobs outlive the connection until that time. The mode
"loops" breaks the protocol at each start, and connects again. The mode "frozen" answers nothing after its hello.
"""

import base64
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

MODE = sys.argv[1] if len(sys.argv) > 1 else "good"
connection = socket.socket(socket.AF_UNIX)
jobs = {}
until = 0


class Busy(Exception):
    """The node has no worker for this host now."""


def note(file, text):
    with open(os.path.join(os.environ["FOLDER"], file), "a") as to:
        to.write(text + "\n")


def send(data):
    connection.sendall(data)


def say(**message):
    send(json.dumps(message).encode() + b"\n")


def text(message, name):
    return message[name] if name in message else base64.b64decode(message.get(name + "64", "")).decode(errors="replace")


def lock(key):
    """The file is unlocked when it is closed, or when this process has ended."""
    file = open(os.path.join(os.environ["FOLDER"], "lock-" + base64.b32encode(key.encode()).decode()), "w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        note("overlaps", key)
    return file


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000_000


def outlive():
    """Runs all jobs until the lease is over, as they may without a word from the node."""
    while MODE == "obeys" and now() < until:
        time.sleep(0.005)
    for _, _, file in jobs.values():
        file.close()
    jobs.clear()


def flood(job):
    while True:
        say(op="status", job=job, text="x" * 1000)


def misbehave(how, message):
    job, n = message["job"], message["n"]
    log = os.path.join(os.environ["FOLDER"], "misbehaves")
    if os.path.exists(log):
        # Once is enough: what is not acknowledged comes again.
        say(op="ack", job=job, n=n)
        return
    note("misbehaves", how)
    if how == "garbage":
        send(b"\x00\xff garbage\n")
    elif how == "no message":
        say(op="rule", job=job)
    elif how == "oversize":
        send(b"x" * (2 << 20))
    elif how == "cut":
        send(b'{"op":"ack","jo')
        connection.shutdown(socket.SHUT_WR)
        time.sleep(1000)
    elif how == "closes":
        connection.shutdown(socket.SHUT_RDWR)
        outlive()
        time.sleep(1000)
    elif how == "twice":
        jobs.pop(job)[2].close()
        say(op="ended", job=job)
        say(op="ended", job=job)
    elif how == "unknown job":
        say(op="started", job=job + 1000)
    elif how == "unasked":
        say(op="stopped", job=job)
    elif how == "wrong ack":
        say(op="ack", job=job, n=n + 5)
    elif how == "wrong pong":
        say(op="pong", n=1 << 40)
    elif how == "second hello":
        say(op="hello", v=[1])
    elif how == "hangs":
        outlive()
        time.sleep(1000)
    elif how == "dies":
        os._exit(3)
    elif how == "is killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "floods":
        threading.Thread(target=flood, args=(job,), daemon=True).start()
    elif how == "bye":
        say(op="bye")
    elif how == "last words":
        # Whatever it is told from now on fails, and the first thing is the answer to this.
        connection.shutdown(socket.SHUT_RD)
        say(op="ask", rid=1, key="nobody", body="", within_ms=1000)
        time.sleep(0.3)
        jobs.pop(job)[2].close()
        say(op="ended", job=job)
        os._exit(0)
    elif how == "asks itself":
        # None is answered before all are said.
        for rid in range(300):
            say(op="ask", rid=rid, key=jobs[job][0], body="who", within_ms=60000)
        say(op="ack", job=job, n=n)
    else:
        say(op="ack", job=job, n=n)


def hear(message):
    global until
    op, job = message["op"], message.get("job")
    if op == "ping" and MODE != "frozen":
        say(op="pong", n=message["n"])
    elif op == "start":
        key, script = text(message, "key"), text(message, "body")
        note("starts", f"{key} {message['token']} {os.getpid()}")
        if MODE == "loops":
            return send(b"garbage\n")
        if MODE == "obeys":
            note("times", f"{key} {os.getpid()} {now()}")
        file = lock(key)
        jobs[job] = (key, None, file)
        if key.startswith("mute"):
            return
        if script:
            jobs[job] = (key, subprocess.Popen(["sh", "-c", script], start_new_session=True), file)
        if key.startswith("brief"):
            jobs.pop(job)[2].close()
            lines = ({"op": "started", "job": job}, {"op": "ended", "job": job, "error": "no more"})
            return send(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        say(op="started", job=job)
    elif op == "update":
        jobs.pop(job)[2].close()
        say(op="ended", job=job)
    elif op == "stop":
        key, child, file = jobs.get(job, ("", None, None))
        note("stops", f"{key} {message['why']}")
        if key.startswith(("stuck", "mute")) or MODE == "deaf":
            return
        if child:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        if jobs.pop(job, None):
            file.close()
            # One that hoards leaves more than a pool keeps.
            say(op="stopped", job=job, **({"checkpoint": "x" * 70_000} if key.startswith("hoards") else {}))
    elif op == "notify":
        misbehave(text(message, "body"), message)
    elif op == "ask":
        say(op="answer", job=job, n=message["n"], body=jobs[job][0])
    elif op in ("ok", "error"):
        note("answers", message.get("code", op))
    elif op == "unsaved":
        note("unsaved", f"{text(message, 'key')} {job} {message['code']}: {message['text']}")
    elif op == "bounds":
        note("bounds", str(message["checkpoint_max"]))
    elif op == "lease" and MODE == "obeys":
        until = max(until, message["until_ms"])
        note("leases", f"{os.getpid()} {until}")
    elif op == "refused":
        if MODE in ("obeys", "loops") and "ours" not in message:
            raise Busy
        note("refused", message["why"])
        sys.exit(78)
    elif op == "bye":
        sys.exit(0)


note("hosts", MODE)
if MODE == "exits":
    print("it cannot live", file=sys.stderr)
    sys.exit(1)
while True:
    connection.connect(os.environ["TENURE_SOCKET"])
    if MODE == "mute":
        time.sleep(1000)
    if MODE == "babbles":
        send(b"GET / HTTP/1.1\r\n\r\n")
    if MODE == "early":
        say(op="started", job=1)
    v = {"v99": [99], "no version": []}.get(MODE, [1])
    say(op="hello", v=v, sdk="raw", features=["ask", "update"], max_jobs=int(os.environ.get("MAX_JOBS", 5000)))
    try:
        for line in connection.makefile("rb"):
            hear(json.loads(line))
        if MODE == "loops":
            raise Busy
    except (Busy, BrokenPipeError):
        note("waits", str(os.getpid()))
        connection = socket.socket(socket.AF_UNIX)
        time.sleep(0.02)
        continue
    note("ends", MODE)
    outlive()
    break

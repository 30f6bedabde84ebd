"""The check's host with one thing broken: `broken.py WHAT`. It shows that the check notices."""

import os
import sys

what = sys.argv[1]
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../../sdk/python/examples"))
import check  # noqa: E402
from tenure import _host, _job, _link  # noqa: E402

Host, Link = _host.Host, _link.Link
send, hear = Link.send, Host._hear


def say(link, message):
    op = message["op"]
    if what == "says started twice" and op == "started":
        send(link, message)
    if what == "never pongs" and op == "pong":
        return
    if what == "forgets the sdk" and op == "hello":
        del message["sdk"]
    if what == "acks one too high" and op == "ack":
        message["n"] += 1
    if what == "spoils bytes" and op == "status":
        message["text"] = message["text"].replace("//4", "AAA")
    if what == "drops the last state" and op == "stopped":
        message.pop("checkpoint", None)
    if what == "stops twice" and op == "stopped":
        send(link, dict(message))
    send(link, message)
    if what == "answers after the end" and op == "stopped":
        send(link, {"op": "answer", "job": message["job"], "n": 1, "body": "late"})


def listen(host, message):
    if what == "ignores stops" and message["op"] == "stop":
        return
    if what == "fails on unknown words" and message["op"] not in _host._WORDS:
        raise KeyError(message["op"])
    if what == "trusts late leases" and message["op"] == "lease":
        message["until_ms"] = 1 << 60
    if what == "ignores leases" and message["op"] == "lease":
        message["until_ms"], message["left_ms"] = 1 << 60, 1 << 50
    if what == "passes over bounds" and message["op"] == "bounds":
        return
    if what == "dies of lost states" and message["op"] == "unsaved":
        raise KeyError(message["op"])
    if what == "stays after bye" and message["op"] == "bye":
        return
    hear(host, message)


Link.send, Host._hear = say, listen
if what == "leaves any state":
    _job.Job._fitting = lambda job, state: _job.data(state)
if what == "acks at once":
    note = _job.Job._note

    def early(job, message):
        note(job, message)
        job._notes[-1].ack()

    _job.Job._note = early
check.host.run()

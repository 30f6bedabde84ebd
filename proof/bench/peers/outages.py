"""The tables of what keys cost that are held, and of what becomes of them in an outage of their process."""

import statistics


def tables(measured):
    """Both tables. A measurement without such runs has none."""
    keyed = [peer for peer in measured["peers"] if peer.get("writes")]
    done = [line for line in measured["runs"] if line["what"] in ("held", "kill", "stop") and "failed" not in line]
    return [*held(measured, keyed, done), *lost(measured, keyed, done)] if done else []


def of(peer, what, done):
    return [line for line in done if line["peer"] == peer["name"] and line["what"] == what]


def shown(values, form, summary=statistics.median):
    """A summary of the values that are there."""
    there = [value for value in values if value is not None]
    return format(summary(there), form) if there else "–"


def held(measured, keyed, done):
    lines = [f"| {measured['jobs']:,} keys that are held for {measured['hold']} s | calls of scripts/s | commands/s | Redis, % of a core | "
             "the program, % of a core | locks lost |", "|---|---:|---:|---:|---:|---:|"]
    for peer in keyed:
        runs = of(peer, "held", done)
        figures = (("scripts_per_s", ",.1f"), ("commands_per_s", ",.1f"), ("redis_percent", ".2f"), ("program_percent", ".1f"), ("ended", ",.0f"))
        lines.append(f"| {peer['name']} | {' | '.join(shown([run[name] for run in runs], form) for name, form in figures)} |")
    return [*lines, ""]


def lost(measured, keyed, done):
    lines = [f"| {measured['keys']:,} keys, and a process of four | before each write, a job | its keys | run again, p50 s | the last, s | "
             "keys with two writers | the last such write after it went on, ms | keys that a check of tokens saves |",
             "|---|---|---:|---:|---:|---:|---:|---:|"]
    for what in ("kill", "stop"):
        for peer in keyed:
            runs = of(peer, what, done)
            still = shown([run.get("still_s") for run in runs], ".0f")
            outage = "is killed" if what == "kill" else f"stands still for {still} s, and goes on"
            # A killed process writes nothing more, whatever its jobs would have asked.
            ways = peer["writes"][:1] if what == "kill" else peer["writes"]
            for suffix, writes in zip(("", "_unasked"), ways):
                lines.append(f"| {peer['name']} {outage} | {writes} | {' | '.join(columns(runs, suffix))} |")
    return [*lines, ""]


def columns(runs, suffix):
    """The figures of an outage: counts of all runs together."""
    def total(name):
        return sum(run[name] for run in runs)

    if not runs:
        return ["–"] * 6
    never = total("lost") - total("again")
    last = shown([run["again_max_s"] for run in runs], ".1f", max)
    twice = total(f"twice{suffix}")
    write = shown([run.get(f"twice_ms{suffix}") for run in runs], ".1f", max)
    return [str(total("lost")), shown([run["again_p50_s"] for run in runs], ".1f"), f"{never} never" if never else last,
            str(twice), write, str(total(f"told{suffix}")) if twice else "–"]

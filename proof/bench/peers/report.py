"""The table and the plot of a run of `make peers`.

    python3 proof/bench/peers/report.py proof/bench/results/peers.json     writes them to docs/ again, without a new run
"""

import json
import pathlib
import statistics
import sys
from html import escape

import outages

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "performance.md"
PLOT = ROOT / "docs" / "peers.svg"
RAW = ROOT / "proof" / "bench" / "results" / "peers.json"
BEGIN, END = "<!-- of make peers: begin -->", "<!-- of make peers: end -->"
KINDS = {"queue": "jobs of a queue", "pool": "jobs with a worker of their own, dispatched until started"}


def raw(measured):
    """The measured values, a run a line."""
    head = json.dumps({name: value for name, value in measured.items() if name != "runs"}, indent=1, ensure_ascii=False)
    runs = ",\n  ".join(json.dumps(line, ensure_ascii=False) for line in measured["runs"])
    return f"{head[:-2]},\n \"runs\": [\n  {runs}\n ]\n}}\n"


def setting(measured):
    """The machine and the jobs, in a sentence each."""
    before = averages(measured["load_before"])
    return (f"On {measured['at']}: Redis {measured['redis']} over TCP without persistence, {measured['cores']} cores, load "
            f"average {before} before.\nAll programs ran by turns, {measured['rounds']} times. A turn is {measured['jobs']:,} jobs of "
            f"100 bytes with {measured['slots']} slots, then {measured['single']:,} jobs one by one.")


def averages(loads):
    return " ".join(f"{average:.2f}" for average in loads)


class Medians:
    """The medians of the runs of one peer. What it has no figure of is `None`."""

    def __init__(self, measured, peer):
        self.peer = peer
        mine = [line for line in measured["runs"] if line["peer"] == peer["name"]]
        self.failed = [f"{line['what']} failed: {line['failed']}" for line in mine if "failed" in line]
        many = [line for line in mine if line["what"] == "throughput" and "failed" not in line]
        single = [line for line in mine if line["what"] == "latency" and "failed" not in line]
        # A run that failed takes what was measured before it along.
        wrong = {line["what"] for line in mine if "failed" in line}
        many, single = [] if "throughput" in wrong else many, [] if "latency" in wrong else single

        def median(rows, figure):
            there = [value for value in map(figure, rows) if value is not None]
            return statistics.median(there) if there else None

        self.rate = median(many, lambda row: row["jobs"] / row["seconds"])
        self.redis = median(many, lambda row: row["redis_us_per_job"])
        self.commands = median(many, lambda row: row.get("commands_per_job"))
        self.half = median(single, lambda row: row["p50_ms"])
        self.most = median(single, lambda row: row["p99_ms"])


def shown(value, form):
    return "–" if value is None else format(value, form)


def tables(measured):
    """A table of medians for each kind, and the settings of each program."""
    lines = []
    for kind, title in KINDS.items():
        peers = [peer for peer in measured["peers"] if peer["kind"] == kind]
        if not peers:
            continue
        lines += [f"| {title} | version | jobs/s | Redis, µs a job | its commands a job | one by one, p50 ms | p99 ms |",
                  "|---|---|---:|---:|---:|---:|---:|"]
        for peer in peers:
            one = Medians(measured, peer)
            figures = (shown(one.rate, ",.0f"), shown(one.redis, ".1f"), shown(one.commands, ".1f"), shown(one.half, ".2f"), shown(one.most, ".2f"))
            lines.append(f"| {peer['name']} | {peer.get('version', 'not had')} | {' | '.join(figures)} |")
        lines.append("")
    lines += outages.tables(measured)
    lines += ["| | settings | not made for |", "|---|---|---|"]
    lines += [f"| {peer['name']} | {peer['settings']} | {peer['not_for']} |" for peer in measured["peers"]]
    lines.append("")
    for peer in measured["peers"]:
        if "missing" in peer:
            lines.append(f"{peer['name']} could not be had on this machine: {peer['missing']}.")
        lines += [f"{peer['name']}, {why}." for why in Medians(measured, peer).failed]
    return "\n".join(lines).rstrip() + "\n"


PANELS = [
    ("jobs in a second", lambda one: one.rate, ",.0f"),
    ("CPU of Redis for a job, µs", lambda one: one.redis, ".1f"),
    ("one by one, p50, ms", lambda one: one.half, ".2f"),
]
COLOURS = {"queue": "#1764ab", "pool": "#c8553d"}
ROW, WIDTH, LABELS = 24, 250, 130


def plot(measured):
    """Bars of the medians: a panel for each figure, a row for each program."""
    rows = [Medians(measured, peer) for peer in measured["peers"]]
    width, height = LABELS + len(PANELS) * WIDTH + 10, 96 + ROW * len(rows)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
           f'<rect width="{width}" height="{height}" fill="white"/>',
           f'<text x="12" y="22" font-size="15">{escape(measured["at"])}, {measured["cores"]} cores, Redis '
           f'{escape(measured["redis"])}: medians of {measured["rounds"]}</text>',
           '<text x="12" y="42"><tspan fill="#1764ab">jobs of a queue</tspan><tspan fill="#c8553d" dx="12">jobs with a worker '
           'of their own</tspan><tspan fill="#555" dx="12">compare within a colour: these do different work</tspan></text>']
    for place, one in enumerate(rows):
        out.append(f'<text x="{LABELS - 8}" y="{92 + ROW * place}" text-anchor="end">{escape(one.peer["name"])}</text>')
    for column, (title, figure, form) in enumerate(PANELS):
        left = LABELS + column * WIDTH
        out.append(f'<text x="{left}" y="68">{title}</text>')
        most = max((figure(one) or 0 for one in rows), default=0) or 1
        for place, one in enumerate(rows):
            value, y = figure(one), 92 + ROW * place
            if value is None:
                why = "not had" if "missing" in one.peer else "failed"
                out.append(f'<text x="{left}" y="{y}" fill="#777">{why}</text>')
                continue
            long = max(1.0, value / most * (WIDTH - 80))
            out.append(f'<rect x="{left}" y="{y - 12}" width="{long:.1f}" height="16" fill="{COLOURS[one.peer["kind"]]}"/>')
            out.append(f'<text x="{left + long + 6:.1f}" y="{y}">{format(value, form)}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def publish(measured):
    """Writes the values, the plot and the part of the page between the two marks."""
    before, found, rest = PAGE.read_text().partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not (found and closed):
        raise SystemExit(f"{PAGE.name} has no place for the table: nothing is written")
    RAW.write_text(raw(measured))
    PLOT.write_text(plot(measured))
    picture = "![jobs in a second, CPU of Redis for a job and the time of one job, beside the peers](peers.svg)"
    PAGE.write_text(f"{before}{BEGIN}\n{setting(measured)}\n\n{tables(measured)}\n{picture}\n{END}{after}")
    print("written to docs/performance.md, docs/peers.svg and proof/bench/results/peers.json")


if __name__ == "__main__":
    publish(json.loads(pathlib.Path(sys.argv[1]).read_text()))

"""The alerts that docs/observability.md and docs/operating.md name."""

import json
import re
from dataclasses import dataclass

import table

PAGE = "docs/operating.md#symptom-metric-cause-action"
HEAD = """\
# Made by `python3 deploy/generator` from the table of metrics in docs/observability.md. Do not edit it.
# For pools with another worker TTL than 10 s: python3 deploy/generator --ttl SECONDS --into FOLDER
"""


@dataclass(frozen=True)
class Rule:
    """An alert. A critical one is worth waking somebody."""

    name: str
    severity: str
    expr: str
    lasts: str
    summary: str
    action: str
    page: str = PAGE


def rises(series, within="5m", by="pool, node"):
    """Whether a counter rises. A counter with a label first appears with what it has counted by then: `increase` alone
    would miss that."""
    appeared = f"({series} unless {series} offset {within})"
    return f"sum by ({by}) ((increase({series}[{within}]) > 0) or {appeared}) > 0"


def rules(ttl):
    """All alerts, for a worker TTL in seconds."""
    pool, node = "pool {{ $labels.pool }}", "node {{ $labels.node }} of pool {{ $labels.pool }}"
    known = "count by (pool) (max_over_time(tenure_pool_workers[1h]) > 0)"
    return [
        Rule(
            "TenureNoWorkers", "critical",
            "sum by (pool) (tenure_pool_workers) == 0"
            f" or ({known} unless count by (pool) (tenure_pool_workers))",
            "1m",
            f"No worker of {pool} is a member: none of its jobs runs",
            "Bring Redis back if tenure_pool_store_errors_total rises. Else start processes with workers.",
        ),
        Rule(
            "TenureWorkersMissing", "warning",
            "tenure_pool_workers < max_over_time(tenure_pool_workers[15m])", "2m",
            f"The {node} has fewer workers than it had",
            "Its leases are lost, as when Redis is out of its reach. Look at its log.",
        ),
        Rule(
            "TenureWorkersFenced", "warning",
            rises("tenure_pool_fenced_workers_total"), "0s",
            f"Workers of {node} lost their lease",
            "A slow network, a throttled processor, a paused machine, or Redis out of reach.",
        ),
        Rule(
            "TenureWorkersExpired", "warning",
            rises("tenure_pool_expired_workers_total", by="pool"), "0s",
            f"Workers of {pool} fell silent, and their jobs run elsewhere",
            "Another node's log names theirs (of=): it crashed, hung or was cut off.",
        ),
        Rule(
            "TenureCrashLoop", "critical",
            rises("tenure_pool_expired_workers_total", by="pool"), "20m",
            f"Workers of {pool} fall silent again and again",
            "A job may take its process down each time. Read the last words of the processes that restart.",
        ),
        Rule(
            "TenureHostsGo", "warning",
            rises('tenure_host_restarts_total{why!="bye"}'), "0s",
            f"A host of {node} has gone, and its jobs run again",
            "The log has its last words. why: it exited, was ended by a signal, was silent, or broke the protocol.",
            "docs/how-to/any-language.md#what-ends-a-process",
        ),
        Rule(
            "TenureHostCrashLoop", "critical",
            rises('tenure_host_restarts_total{why!="bye"}', by="pool"), "15m",
            f"Hosts of {pool} go again and again",
            "A job may take its process down each time, or the program cannot live. Read the last words of the hosts.",
            "docs/how-to/any-language.md#what-ends-a-process",
        ),
        Rule(
            "TenureHostSilent", "warning",
            "max by (pool, node) (tenure_host_silence_seconds) > 10", "0s",
            f"A host of {node} answers nothing: its jobs stand still",
            "Its event loop is blocked. The node ends it at its --host-deadline, and its jobs run again.",
            "docs/how-to/any-language.md#what-ends-a-process",
        ),
        Rule(
            "TenureLeaseOld", "warning",
            f"max by (pool, node) (max_over_time(tenure_pool_lease_age_seconds[1m])) > {0.4 * ttl:g}", "0s",
            f"A lease of {node} came close to its end",
            f"It ends at {0.6 * ttl:g} s without a renewal. Raise its limit of processor time, or the worker TTL.",
        ),
        Rule(
            "TenurePoolClosed", "critical",
            "max by (pool) (tenure_pool_open) == 0", f"{3 * ttl}s",
            f"The {pool} is not open: no job starts",
            "Data were lost, or a shutdown is under way.",
            "docs/operating.md#the-pool-does-not-open",
        ),
        Rule(
            "TenureJobsStuck", "critical",
            "max by (pool, node) (tenure_pool_stuck_jobs) > 0", "1m",
            f"A handler of {node} does not end although it was aborted",
            "Restart the process.",
            "docs/how-to/blocking-work.md",
        ),
        Rule(
            "TenureJobsLost", "critical",
            rises('tenure_pool_attested_jobs_total{outcome=~"gone|outranked"}', "15m", "pool"), "0s",
            f"Redis lost data of {pool}, and jobs with it",
            "Dispatch them again, with ensure. The logs name their keys.",
            "docs/guarantees.md#when-redis-loses-data",
        ),
        Rule(
            "TenureJobsParked", "warning",
            rises('tenure_pool_releases_total{outcome="parked"}', "15m", "pool"), "0s",
            f"Jobs of {pool} failed too often and are parked",
            "Find the cause in their last errors: tenure ls --state parked. Then: tenure retry.",
            "docs/operating.md#parked-jobs",
        ),
        Rule(
            "TenureJobsStayParked", "warning",
            "max by (pool) (tenure_pool_parked_jobs) > 0", "1h",
            f"Jobs of {pool} have been parked for an hour",
            "They keep their keys until somebody decides: tenure retry, or tenure stop.",
            "docs/operating.md#parked-jobs",
        ),
        Rule(
            "TenureQueueFull", "critical",
            rises('tenure_pool_dispatches_total{outcome="full"}', by="pool"), "0s",
            f"The {pool} refuses dispatches: its queue is full",
            "Add workers, find out why starts are slow, or raise max_queued.",
        ),
        Rule(
            "TenureDispatchesLate", "warning",
            rises('tenure_pool_dispatches_total{outcome="deadline"}', by="pool"), "5m",
            f"Dispatches to {pool} are not answered in time",
            "Ask tenure explain about one of their keys.",
        ),
        Rule(
            "TenureJobsWait", "warning",
            rises('tenure_pool_routed_total{outcome="waiting"}', by="pool"), "5m",
            f"Jobs of {pool} find no worker",
            "The pool is on hold, no worker lives, or all are full. tenure doctor says which.",
        ),
        Rule(
            "TenureStoreRefuses", "critical",
            rises('tenure_pool_store_errors_total{kind="not_executed"}', by="pool")
            # Without workers it is out of reach.
            + " and on (pool) sum by (pool) (tenure_pool_workers) > 0",
            "2m",
            f"Redis refuses writes of {pool}: nothing new starts",
            "It is full, or cannot write its append-only file. Free memory or disk.",
        ),
        Rule(
            "TenureStoreErrors", "warning",
            rises('tenure_pool_store_errors_total{kind=~"other_server|unanswered|damaged|unusable"}'), "5m",
            f"Redis does not serve {node} well",
            "The log names the error. Jobs end when it lasts for longer than 0.6 of the worker TTL.",
        ),
        Rule(
            "TenureJobsFail", "warning",
            rises('tenure_pool_failures_total{kind=~"run|start|lost"}', by="pool"), "15m",
            f"Jobs of {pool} keep failing",
            "The log has key, error, attempts and pause.",
        ),
        Rule(
            "TenureStatesNotKept", "warning",
            rises('tenure_pool_unsaved_checkpoints_total{why=~"too_long|encoding|refused"}', "15m", "pool"), "0s",
            f"States of jobs of {pool} are not kept",
            "The next owners begin with older ones. The log has a key, the length and the bound, checkpoint_max.",
            "docs/how-to/state-that-survives-a-move.md",
        ),
        Rule(
            "TenureJobsHang", "warning",
            rises('tenure_pool_failures_total{kind="stalled"}', "15m", "pool"), "0s",
            f"Jobs of {pool} made no progress",
            "The log has their keys. Look where they wait.",
        ),
        Rule(
            "TenureWorkersFull", "warning",
            "sum by (pool) (tenure_pool_full_workers) >= sum by (pool) (tenure_pool_workers) > 0", "5m",
            f"All workers of {pool} are full: further jobs wait",
            "Add workers.",
            "docs/scaling.md#unequal-machines",
        ),
        Rule(
            "TenurePlansFail", "warning",
            rises('tenure_pool_plans_total{outcome=~"failed|aborted"}', by="pool"), "10m",
            f"A schedule of {pool} stands still",
            "Its planner fails or is too slow. The log has the error.",
        ),
        Rule(
            "TenureDeployMovesTwice", "info",
            'sum by (pool) (increase(tenure_pool_stops_total{reason="moved"}[30m]))'
            ' > 0.25 * (sum by (pool) (increase(tenure_pool_stops_total{reason="draining"}[30m])) > 0)',
            "0s",
            f"A deploy of {pool} moves many jobs twice",
            "The old node leaves later than join_settle: raise that.",
            "docs/how-to/kubernetes.md#why-these-values",
        ),
    ]


def faults(made, metrics):
    """What rules name that does not exist, or use in a way that their metrics' kinds forbid."""
    found = []
    for rule in made:
        found += [f"alert {rule.name}: {fault}" for fault in table.unknown(rule.expr + rule.action, metrics)]
        for series in re.findall(r"increase\((tenure_(?:pool|host)_\w+)", rule.expr):
            metric = metrics.get(table.base(series))
            if metric and metric.kind == "gauge":
                found.append(f"alert {rule.name}: {series} is a gauge, and has no increase")
    return found


def text(made):
    """The file of rules. Strings are in JSON, which YAML reads."""
    lines = [HEAD + "groups:", "  - name: tenure", "    rules:"]
    for rule in made:
        lines += [f"      - alert: {rule.name}", f"        expr: {json.dumps(rule.expr)}"]
        if rule.lasts != "0s":
            lines.append(f"        for: {rule.lasts}")
        lines += [
            f"        labels: {{ severity: {rule.severity} }}",
            "        annotations:",
            f"          summary: {json.dumps(rule.summary)}",
            f"          description: {json.dumps(rule.action)}",
            f"          page: {json.dumps(rule.page)}",
        ]
    return "\n".join(lines) + "\n"

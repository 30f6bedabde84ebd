"""The Grafana dashboard: a panel for each metric of the table."""

import json

import table

# Every metric stands in one row.
ROWS = {
    "Jobs": [
        "jobs", "queued_jobs", "parked_jobs", "stuck_jobs", "starts_total", "stops_total", "releases_total",
        "start_wait_seconds", "waiting_starts", "start_pace", "waiting_moves", "moves_total", "move_rate", "move_pace",
    ],
    "Dispatches and messages": [
        "dispatches_total", "open_dispatches", "notifications_total", "refused_notifications_total",
        "taken_updates_total",
    ],
    "Workers and leases": [
        "workers", "full_workers", "open", "lease_age_seconds", "fenced_workers_total", "expired_workers_total",
    ],
    "Hosts": ["tenure_host_up", "tenure_host_restarts_total", "tenure_host_silence_seconds"],
    "Trouble": ["failures_total", "unsaved_checkpoints_total", "store_errors_total", "attested_jobs_total", "swept_total"],
    "Redis and the pool's own work": ["store_call_seconds", "routed_total", "plans_total", "ticks_total"],
}
# The figures at the top, with the level from which each is red, and whether it is red below that level.
FIRST = [
    ("Workers", "sum(tenure_pool_workers{%s})", 1, True),
    ("Jobs that run", "sum(tenure_pool_jobs{%s})", None, False),
    ("Jobs that have never begun", "max(tenure_pool_queued_jobs{%s})", None, False),
    ("Parked jobs", "max(tenure_pool_parked_jobs{%s})", 1, False),
    ("Stuck jobs", "sum(tenure_pool_stuck_jobs{%s})", 1, False),
    ("Nodes that see the pool open", "sum(tenure_pool_open{%s})", 1, True),
]
SELECTED = 'pool=~"$pool",node=~"$node"'
# What a query is checked with in place of Grafana's variables.
EXAMPLES = {"$__rate_interval": "5m", "$pool": "feeds", "$node": ".*"}
SOURCE = {"type": "prometheus", "uid": "${source}"}


def faults(metrics):
    """Metrics without a panel, and panels without a metric."""
    placed = [table.full(name) for names in ROWS.values() for name in names]
    found = [f"dashboard: {name} stands in no row of ROWS" for name in metrics if name not in placed]
    found += [f"dashboard: there is no metric {name}" for name in placed if name not in metrics]
    return found + [f"dashboard: {name} stands in two rows" for name in set(placed) if placed.count(name) > 1]


def queries(metric):
    """Pairs of a query and the legend of its lines."""
    series = f"{metric.name}{{{SELECTED}}}"
    by = f"pool, {metric.label}" if metric.label else "pool, node"
    legend = f"{{{{pool}}}} {{{{{metric.label or 'node'}}}}}"
    if metric.kind == "counter":
        return [(f"sum by ({by}) (rate({series}[$__rate_interval]))", legend)]
    if metric.kind == "histogram":
        by = f"pool, {metric.label}" if metric.label else "pool"
        legend = f"{{{{pool}}}} {{{{{metric.label}}}}}" if metric.label else "{{pool}}"
        rate = f"sum by ({by}) (rate({metric.name}_%s{{{SELECTED}}}[$__rate_interval]))"
        buckets = f"sum by ({by}, le) (rate({metric.name}_bucket{{{SELECTED}}}[$__rate_interval]))"
        mean = f"{rate % 'sum'} / ({rate % 'count'} > 0)"
        return [(mean, f"{legend} mean"), (f"histogram_quantile(0.99, {buckets})", f"{legend} 99 %")]
    if metric.whole_pool:
        return [(f"max by (pool) ({series})", "{{pool}}")]
    return [(f"max by (pool, node) ({series})", "{{pool}} {{node}}")]


def panel(number, metric, place):
    title = metric.name.removeprefix("tenure_").removeprefix("pool_").removesuffix("_total").removesuffix("_seconds").replace("_", " ")
    per_second = metric.kind == "counter"
    unit = "s" if metric.unit == "seconds" else "short"
    return {
        "id": number,
        "type": "timeseries",
        "title": title[0].upper() + title[1:] + (" per second" if per_second else ""),
        "description": f"{metric.name}, {metric.kind}, {metric.unit}: {metric.what}",
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0, "custom": {"fillOpacity": 10}}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": targets(queries(metric)),
    }


def stat(number, title, query, red, below, place):
    steps = [{"color": "red" if below else "green", "value": None}]
    if red is not None:
        steps.append({"color": "green" if below else "red", "value": red})
    return {
        "id": number,
        "type": "stat",
        "title": title,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"thresholds": {"mode": "absolute", "steps": steps}}, "overrides": []},
        "options": {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value"},
        "targets": targets([(query % SELECTED, title)]),
    }


def targets(pairs):
    return [
        {"refId": chr(ord("A") + number), "datasource": SOURCE, "expr": query, "legendFormat": legend}
        for number, (query, legend) in enumerate(pairs)
    ]


def variable(name, label, of):
    query = f"label_values({of}, {name})"
    return {
        "name": name, "label": label, "type": "query", "datasource": SOURCE, "definition": query,
        "query": {"query": query, "refId": name}, "refresh": 2, "sort": 1, "multi": True, "includeAll": True,
        "allValue": ".*", "current": {"text": "All", "value": "$__all"},
    }


def text(metrics):
    """The dashboard's file."""
    panels, top = [], 0
    for column, first in enumerate(FIRST):
        panels.append(stat(len(panels) + 1, *first, {"x": 4 * column, "y": top, "w": 4, "h": 4}))
    top += 4
    for row, names in ROWS.items():
        place = {"x": 0, "y": top, "w": 24, "h": 1}
        panels.append({
            "id": len(panels) + 1, "type": "row", "title": row, "collapsed": False, "gridPos": place, "panels": [],
        })
        top += 1
        for index, name in enumerate(names):
            place = {"x": 8 * (index % 3), "y": top + 8 * (index // 3), "w": 8, "h": 8}
            panels.append(panel(len(panels) + 1, metrics[table.full(name)], place))
        top += 8 * -(-len(names) // 3)
    source = {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    made = {
        "uid": "tenure-pool",
        "title": "Tenure: pools",
        "description": "Made by python3 deploy/generator from the table of metrics in docs/observability.md.",
        "tags": ["tenure"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [
            source,
            variable("pool", "Pool", "tenure_pool_workers"),
            variable("node", "Node", 'tenure_pool_workers{pool=~"$pool"}'),
        ]},
        "panels": panels,
    }
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"

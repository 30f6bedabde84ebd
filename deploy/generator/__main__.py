"""Makes the dashboard and the alert rules from the table of metrics in docs/observability.md.

    python3 deploy/generator                         write deploy/grafana/pool.json and deploy/prometheus/alerts.yaml
    python3 deploy/generator --check                 write nothing; fail if they differ, or if a file of the kit is at odds
                                                     with the documents
    python3 deploy/generator --ttl 5 --into FOLDER   write them for pools with a worker TTL of 5 s, into a folder of yours
    python3 deploy/generator --expressions           print all queries of dashboard and autoscaler as rules, for promtool
"""

import argparse
import json
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True

import alerts  # noqa: E402
import dashboard  # noqa: E402
import table  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
DASHBOARD = Path("grafana/pool.json")
RULES = Path("prometheus/alerts.yaml")
TESTS = DEPLOY / "prometheus/alerts.test.yaml"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--expressions", action="store_true")
    parser.add_argument("--ttl", type=int, default=10, metavar="SECONDS")
    parser.add_argument("--into", type=Path, default=DEPLOY, metavar="FOLDER")
    chosen = parser.parse_args()
    if chosen.ttl != 10 and chosen.into == DEPLOY:
        parser.error("--ttl needs --into: the files of the kit are for the default of 10 s")

    metrics = table.read(ROOT / "docs/observability.md")
    rules = alerts.rules(chosen.ttl)
    faults = alerts.faults(rules, metrics) + dashboard.faults(metrics)
    if faults:
        fail(faults)
    files = {DASHBOARD: dashboard.text(metrics), RULES: alerts.text(rules)}
    if chosen.expressions:
        print(expressions(json.loads(files[DASHBOARD])), end="")
    elif chosen.check:
        faults = outdated(files) + unknown_names(metrics) + without_test(rules) + without_rule(rules, metrics)
        if faults:
            fail(faults)
        print(f"{len(rules)} alerts and {len(metrics)} metrics agree with the documents")
    else:
        for name, text in files.items():
            (chosen.into / name).parent.mkdir(parents=True, exist_ok=True)
            (chosen.into / name).write_text(text)


def fail(faults):
    print("\n".join(faults), file=sys.stderr)
    sys.exit(1)


def outdated(files):
    """The generated files that are not as this script makes them."""
    told = "deploy/{} is not as the generator makes it: run python3 deploy/generator"
    return [told.format(name) for name, text in files.items() if read(DEPLOY / name) != text]


def unknown_names(metrics):
    """Metrics, labels and values that a file of the kit names, and that do not exist."""
    faults = []
    for path in sorted(DEPLOY.rglob("*")):
        if path.is_file() and path.suffix in (".yaml", ".json", ".md"):
            where = path.relative_to(ROOT)
            faults += [f"{where}: {fault}" for fault in table.unknown(read(path), metrics)]
    return faults


def without_test(rules):
    """Alerts that no test of promtool expects."""
    tested = set(re.findall(r'alertname="(\w+)"', read(TESTS)))
    names = {rule.name for rule in rules}
    where = TESTS.relative_to(ROOT)
    untested = [f"{where}: {name} is never expected to fire" for name in sorted(names - tested)]
    return untested + [f"{where}: there is no alert {name}" for name in sorted(tested - names)]


def without_rule(rules, metrics):
    """Symptoms of docs/operating.md with a metric that no alert looks at, and pages of alerts that do not exist."""
    table_of = read(ROOT / "docs/operating.md").split("| symptom | metric |", 1)[-1].split("\n\n", 1)[0]
    looked_at = {name for rule in rules for name in table.names(rule.expr)}
    faults, symptoms = [], 0
    for row in table_of.splitlines()[2:]:
        symptom, cell = row.split("|")[1:3]
        named = {table.full(name) for name in re.findall(r"`([a-z_]+)[`{]", cell)} & metrics.keys()
        symptoms += bool(named)
        if named and not named & looked_at:
            faults.append(f"docs/operating.md: no alert looks at {min(named)} ({symptom.strip()})")
    if not symptoms:
        faults.append("docs/operating.md: the table of symptoms was not found")
    for rule in rules:
        page, _, anchor = rule.page.partition("#")
        if anchor not in anchors(read(ROOT / page)):
            faults.append(f"alert {rule.name}: there is no {rule.page}")
    return faults


def anchors(page):
    """The addresses within a Markdown page. The empty one is the page itself, if it exists."""
    titles = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles} | ({""} if page else set())


def expressions(made):
    """Rules with every query of the dashboard and of the autoscaler."""
    queries = [target["expr"] for panel in made["panels"] for target in panel.get("targets", [])]
    for path in sorted((DEPLOY / "keda").glob("*.yaml")):
        found = re.findall(r"^\s*query: (.+)$", read(path), re.MULTILINE)
        queries += [query.strip().strip("'") for query in found]
    for variable, value in dashboard.EXAMPLES.items():
        queries = [query.replace(variable, value) for query in queries]
    rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(queries)]
    return json.dumps({"groups": [{"name": "queries", "rules": rules}]}, indent=1) + "\n"


def read(path):
    return path.read_text() if path.exists() else ""


main()

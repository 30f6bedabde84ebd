"""The metrics of docs/observability.md, and texts that name them."""

import re
from dataclasses import dataclass

# Labels of every metric, and those that an exporter adds.
COMMON = {"pool", "node", "le"}
PARTS = ("_sum", "_count", "_bucket")


@dataclass(frozen=True)
class Metric:
    """A row of the table."""

    name: str
    kind: str
    unit: str
    label: str
    # None where the table does not list them.
    values: frozenset
    what: str

    @property
    def whole_pool(self):
        """Every node says the same figure: it must not be added up."""
        return "do not add them up" in self.what


def read(path):
    """The metrics of the table in this document, by name."""
    row = re.compile(r"^\| `(tenure_(?:pool|host)_\w+)` \|(.*)\|$")
    metrics = {}
    for line in path.read_text().splitlines():
        found = row.match(line)
        if not found:
            continue
        cells = [cell.strip() for cell in found[2].split("|")]
        if len(cells) != 4:
            raise SystemExit(f"{path}: the row of {found[1]} has not five cells")
        kind, unit, label, what = cells
        name, _, values = label.partition(":")
        listed = frozenset(re.findall(r"\w+", values)) if values and "steps.md" not in values else None
        metrics[found[1]] = Metric(found[1], kind, unit, name.strip().strip("`"), listed, what)
    if not metrics:
        raise SystemExit(f"{path}: there is no table of metrics")
    return metrics


def names(text):
    """All metrics that a text names, and parts of histograms by their metric."""
    return {base(name) for name in re.findall(r"\btenure_(?:pool|host)_\w+", text)}


def full(name):
    """The whole name of a metric. A metric of pools may stand without the beginning of its name."""
    return name if name.startswith("tenure_") else f"tenure_pool_{name}"


def base(name):
    """The metric of a series."""
    for part in PARTS:
        if name.endswith(part):
            return name.removesuffix(part)
    return name


def unknown(text, metrics):
    """Says which metrics, labels and values a text names that do not exist."""
    faults = []
    text = text.replace('\\"', '"')
    for name, matchers in sorted(set(re.findall(r"\b(tenure_(?:pool|host)_\w+)(?:\{([^}]*)\})?", text))):
        metric = metrics.get(base(name))
        if metric is None:
            faults.append(f"there is no metric {name}")
            continue
        if name != metric.name and metric.kind != "histogram":
            faults.append(f"{metric.name} is a {metric.kind}: there is no {name}")
        for label, value in re.findall(r'(\w+)\s*[=!]~?\s*"([^"]*)"', matchers):
            if label not in COMMON and label != metric.label:
                faults.append(f"{metric.name} has no label {label}")
            elif label == metric.label and metric.values is not None:
                wrong = [one for one in value.split("|") if one not in metric.values]
                faults += [f"{metric.name} has no {label} {one}" for one in wrong]
    return faults

"""What a PromQL expression uses: names of metrics and labels. Not a parser of PromQL; promtool is where it can be had."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gatewright.telemetry.metric_list import EXPIRY_METRICS, FORGE_METRICS
from gatewright.telemetry.metrics import METRICS, Metric

#: Metrics that Prometheus itself or the client library makes.
FOREIGN = frozenset(
    {"up", "ALERTS", "process_start_time_seconds", "process_resident_memory_bytes", "process_cpu_seconds_total"}
)
#: Labels that Prometheus adds.
TARGET_LABELS = frozenset({"job", "instance", "service", "alertname", "alertstate"})

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_WORD = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_SELECTOR = re.compile(r"\{([^}]*)\}")
_MATCHER = re.compile(r"([a-zA-Z_]\w*)\s*(?:=~|!~|!=|=)\s*")
_GROUPING = re.compile(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)")
_RANGE = re.compile(r"\[[^\]]*\]|\boffset\s+\w+")
_WORDS_OF_PROMQL = frozenset(
    {
        *("sum", "max", "min", "count", "absent", "rate", "increase", "changes", "histogram_quantile", "time", "max_over_time"),
        *("and", "or", "unless", "by", "on", "without", "ignoring", "offset", "bool"),
    }
)


def metric_names(expression: str) -> set[str]:
    """Every name in an expression that is neither a word of the language nor a label."""
    bare = _RANGE.sub("", _GROUPING.sub("", _SELECTOR.sub("", _STRING.sub('""', expression))))
    return {word for word in _WORD.findall(bare) if word not in _WORDS_OF_PROMQL}


def label_names(expression: str) -> set[str]:
    """Labels in selectors and groupings."""
    bare = _STRING.sub('""', expression)
    matched = {name for inside in _SELECTOR.findall(bare) for name in _MATCHER.findall(inside)}
    grouped = {name.strip() for inside in _GROUPING.findall(bare) for name in inside.split(",") if name.strip()}
    return matched | grouped


def label_values(expression: str) -> Iterator[tuple[str, str]]:
    """Label and value of every matcher; the alternatives of ``a|b`` one by one."""
    for inside in _SELECTOR.findall(expression):
        for name, operator, value in re.findall(r'([a-zA-Z_]\w*)\s*(=~|!~|!=|=)\s*"([^"]*)"', inside):
            yield from ((name, part) for part in (value.split("|") if "~" in operator else (value,)))


def on_the_list(name: str) -> Metric | None:
    """The metric that a scraped name belongs to: that of a histogram has an ending."""
    for metric in (*METRICS, *EXPIRY_METRICS, *FORGE_METRICS):
        names = {metric.name}
        if metric.kind == "histogram":
            names = {f"{metric.name}{ending}" for ending in ("_bucket", "_sum", "_count")}
        if name in names:
            return metric
    return None


def faults(expression: str) -> list[str]:
    """What an expression uses that does not exist."""
    used = {name: on_the_list(name) for name in metric_names(expression)}
    wrong = [f"no metric {name}" for name, metric in used.items() if metric is None and name not in FOREIGN]
    labels = TARGET_LABELS | {"le"} | {label for metric in used.values() if metric is not None for label in metric.labels}
    return wrong + [f"no label {name}" for name in sorted(label_names(expression) - labels)]

"""Reads what we ship for Prometheus and Grafana."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
MONITORING = ROOT / "deploy" / "monitoring"
GRAFANA = MONITORING / "grafana"


def read_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def read_rules() -> list[dict[str, Any]]:
    return [rule for group in read_yaml(MONITORING / "alerts.yml")["groups"] for rule in group["rules"]]


def read_panels() -> list[dict[str, Any]]:
    board = json.loads((GRAFANA / "dashboards" / "gatewright.json").read_text())
    return [panel for panel in board["panels"] if panel["type"] != "row"]

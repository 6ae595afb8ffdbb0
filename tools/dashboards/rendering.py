"""The files of the dashboards."""

import json
from pathlib import Path

from tools.dashboards.clusters import CLUSTERS
from tools.dashboards.operators import OPERATOR
from tools.dashboards.quotas import QUOTAS
from tools.grafana import Dashboard

FOLDER = Path(__file__).resolve().parents[2] / "charts" / "sluicegate" / "dashboards"
FILES = {"clusters.json": CLUSTERS, "quotas.json": QUOTAS, "operator.json": OPERATOR}


def render(dashboard: Dashboard) -> str:
    return json.dumps(dashboard.model(), indent=1) + "\n"

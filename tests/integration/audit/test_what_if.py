"""`sluicegate what-if` as a user runs it: manifests and a landed log, and the processes of operator and pipeline."""

import json
import subprocess
import sys
from pathlib import Path

from tests.support.audit.connection_storms import CALM_CONNECTIONS, STORM_CONNECTIONS, land_storm

ROOT = Path(__file__).parents[3]
QUOTA = """apiVersion: sluicegate.dev/v1alpha1
kind: ConnectionQuota
metadata: {name: clients, namespace: shop}
spec:
  clusterRef: {name: shop}
  target: {listener: CLIENTS}
  maxConnections: 5
"""
PROGRAM = f"""
import sys
sys.path[:0] = {[str(ROOT), str(ROOT / "operator")]!r}
from sluicegate_operator.cli.main import main
main()
"""


def test_a_quota_is_tried_on_a_landed_log(tmp_path: Path) -> None:
    land_storm(tmp_path)
    (tmp_path / "quota.yaml").write_text(QUOTA, encoding="utf-8")
    arguments = ["what-if", "-f", str(tmp_path / "quota.yaml"), "--audit", str(tmp_path / "segments"), "-o", "json"]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=False, cwd=ROOT, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["connections"] == CALM_CONNECTIONS + STORM_CONNECTIONS
    assert found["limits"][0]["quota"] == "shop/clients"
    assert found["limits"][0]["delayed"] > 20

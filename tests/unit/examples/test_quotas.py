"""The ConnectionQuotas of examples/README.md, which a reader applies to one cluster one after another."""

import json
from pathlib import Path

import yaml

EXAMPLES = Path(__file__).parents[3] / "examples"
APPLIED = ("quickstart", "quotas")


def test_each_has_a_target_of_its_own() -> None:
    """Two quotas of one target conflict, and `kubectl wait` on the second would not end."""
    files = [file for folder in APPLIED for file in sorted((EXAMPLES / folder).glob("*.yaml"))]
    objects = [one for file in files for one in yaml.safe_load_all(file.read_text(encoding="utf-8")) if one]
    quotas = [one for one in objects if one["kind"] == "ConnectionQuota"]
    targets = {json.dumps(one["spec"]["target"], sort_keys=True): one["metadata"]["name"] for one in quotas}
    assert len(quotas) > len(APPLIED)
    assert sorted(targets.values()) == sorted(one["metadata"]["name"] for one in quotas)

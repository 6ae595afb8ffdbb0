"""The manifests of recommended limits are ones that the operator accepts."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer

from sluicegate_operator.api import load_manifests
from sluicegate_operator.api.models.connection_quota import ConnectionQuota
from sluicegate_operator.cli.manifests.recommend import RecommendOutput, manifests, recommend

USUAL = {"connections": 360, "accepted": 360, "delayed": 90, "delay_max_us": 1_902_000, "rejected": 0}
STORM = {"connections": 6_000, "accepted": 2_100, "delayed": 2_000, "delay_max_us": 60_000_000, "rejected": 0}


def limit(kind: str, target: str, **more: Any) -> dict[str, Any]:
    found = {
        "cluster_id": "id", "kind": kind, "target": target, "limit_is": None, "from_date": "2026-11-16",
        "to_date": "2026-11-22", "rate": 26, "strategy": "token-bucket", "is_holding": True, "storms": 1,
        "waiting_connections": 10, "tried_connections": 10, "why": "26/s is the smallest rate.",
        "parts": {"usual": USUAL, "storm": STORM},
    }  # fmt: skip
    return {**found, **more}


LIMITS = [
    limit("listener", "EXTERNAL"),
    limit("listener", "WEAK", is_holding=False),
    limit("listener", "my-listener"),
    limit("cidr", "0.0.0.0/0", limit_is="PerAddress", rate=3, tried_connections=4),
    limit("cidr", "::/0", limit_is="PerAddress", rate=3, storms=0),
    limit("cidr", "2001:db8:0:1::/64", limit_is="Shared", rate=1),
    limit("cidr", "10.1.0.0/24", limit_is="Shared", storms=0),
    limit("ip", "10.9.0.1", rate=1),
    limit("ip", "10.1.2.99", storms=0),
]


@pytest.mark.parametrize("namespace", [None, "shop"])
def test_each_limit_that_holds_the_storms_is_a_valid_quota(tmp_path: Path, namespace: str | None) -> None:
    file = tmp_path / "recommended.yaml"
    file.write_text("\n".join(manifests(LIMITS, "shop", namespace)), encoding="utf-8")
    loaded = load_manifests([file])
    assert not loaded.errors
    found = {
        quota.name: (quota.spec.target.describe(), quota.spec.max_connection_creation_rate, quota.spec.mode)
        for quota in loaded.of_kind(ConnectionQuota)
    }
    assert found == {
        "recommended-listener-external": ("listener EXTERNAL", 26, "Enforce"),
        "recommended-cidr-0-0-0-0-0": ("cidr 0.0.0.0/0", 3, "Observe"),
        "recommended-cidr-0": ("cidr ::/0", 3, "Observe"),
        "recommended-cidr-2001-db8-0-1-64": ("cidr 2001:db8:0:1::/64", 1, "Observe"),
        "recommended-ip-10-9-0-1": ("ip 10.9.0.1", 1, "Observe"),
    }


def test_comments_have_the_reasons_the_replay_and_what_is_left_out() -> None:
    text = " ".join(line.removeprefix("# ") for line in manifests(LIMITS, "shop", None))
    for sentence in (
        "Recommended from the connections of 2026-11-16 to 2026-11-22 (UTC).",
        "listener EXTERNAL: 26/s is the smallest rate.",
        "Replayed: of 360 usual connections, 360 are admitted, 90 of them delayed, at most 1.902 s; 0 are rejected.",
        "Replayed: of 6,000 connections of storms, 2,100 are admitted",
        "mode Observe does not exist for a listener",
        "this rate would not hold each storm",
        "No ConnectionQuota can name this listener",
        "Of 10 connections in the times of possible waits, 4 were replayed.",
    ):
        assert sentence in text


@pytest.mark.parametrize(
    ("options", "limits", "code", "sentence"),
    [
        ({}, LIMITS, 2, "-o yaml needs --cluster NAME"),
        ({"cluster": "shop"}, [*LIMITS, limit("ip", "10.0.0.1", cluster_id="z")], 2, "one with --cluster-id, of id, z"),
        ({"cluster": "shop"}, LIMITS, 3, ""),
    ],
)
def test_exit_codes(
    options: dict[str, str],
    limits: list[Any],
    code: int,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def pipeline(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 3, json.dumps({"limits": limits}))

    monkeypatch.setattr("subprocess.run", pipeline)
    with pytest.raises(typer.Exit) as ended:
        recommend("results", output=RecommendOutput.YAML, **options)
    assert ended.value.exit_code == code
    assert sentence in capsys.readouterr().err

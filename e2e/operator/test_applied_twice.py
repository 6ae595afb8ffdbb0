"""Repeated applies by a GitOps tool change nothing, and the operator changes none of the applied fields."""

import json
import subprocess
from typing import Any

from e2e.cluster.binaries import binaries_folder
from e2e.cluster.waiting import wait_for
from e2e.world.shop import CRDS, QUICKSTART, Json, Shop

FILES = ("-f", str(QUICKSTART), "-f", str(CRDS))
MANAGER = "a-gitops-tool"
QUIET_S = 4.0
"""Longer than the operator's resync in these tests."""


def applied(shop: Shop) -> dict[str, Json]:
    """Apply on the server side, as Flux and Argo CD do, and return the resulting objects by name."""
    arguments = ("apply", "--server-side", "--force-conflicts", f"--field-manager={MANAGER}", "-o", "json")
    items = json.loads(shop.plane.kubectl(*arguments, *FILES))["items"]
    return {f"{item['kind']}/{item['metadata']['name']}": item for item in items}


def without_status(item: Json) -> Json:
    """Return the item without its status, which changes as brokers come and go; all other fields belong to the tool."""
    meta = {key: value for key, value in item["metadata"].items() if key not in ("managedFields", "resourceVersion")}
    return {**{key: value for key, value in item.items() if key != "status"}, "metadata": meta}


def owned_by_others(item: Json) -> list[Any]:
    """Fields outside of the status that neither the tool nor kubectl has written."""
    entries = item["metadata"].get("managedFields", [])
    return [
        entry
        for entry in entries
        if entry.get("subresource") != "status" and not entry["manager"].startswith((MANAGER, "kubectl"))
    ]


def test_what_is_applied_again_is_unchanged(shop: Shop) -> None:
    first = applied(shop)
    before = {name: item["metadata"]["resourceVersion"] for name, item in quiet(shop).items()}
    again = applied(shop)
    assert {name: without_status(item) for name, item in again.items()} == {
        name: without_status(item) for name, item in first.items()
    }
    assert {name: item["metadata"]["resourceVersion"] for name, item in again.items()} == before


def quiet(shop: Shop) -> dict[str, Json]:
    """Wait until two checks, a resync apart, give the same: no writer changes another writer's fields."""
    seen: list[dict[str, str]] = []

    def look() -> dict[str, Json]:
        items = applied(shop)
        seen.append({name: item["metadata"]["resourceVersion"] for name, item in items.items()})
        return items if seen[-2:-1] == seen[-1:] else {}

    return wait_for("nothing is written", look, timeout_s=30, interval_s=QUIET_S)


def test_there_is_nothing_to_apply_and_no_spec_is_the_operators(shop: Shop) -> None:
    done = subprocess.run(
        [
            binaries_folder() / "kubectl",
            f"--kubeconfig={shop.plane.kubeconfig}",
            "diff",
            "--server-side",
            "--force-conflicts",
            f"--field-manager={MANAGER}",
            *FILES,
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    items = applied(shop)
    assert len(items) > 10
    assert {name: owned_by_others(item) for name, item in items.items() if owned_by_others(item)} == {}

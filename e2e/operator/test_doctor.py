"""`sluicegate doctor` at a real API server: its CRDs, and the rights of users and of the operator.

It uses a separate control plane, without a running operator.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster.control_plane import ControlPlane
from e2e.world.operator_process import OPERATOR_NAMESPACE, REPOSITORY, operator_account
from e2e.world.shop import CRDS, KINDS, install_crds

COMMAND = Path(sys.executable).parent / "sluicegate"
RELEASE = version("sluicegate")
TIMEOUT_S = 60
LISTENERS, TOPICS = "brokerlisteners.sluicegate.dev", "topics.sluicegate.dev"


@pytest.fixture(scope="module")
def bare_plane() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        install_crds(plane)
        yield plane


def examined(kubeconfig: Path) -> tuple[int, list[dict[str, Any]]]:
    """Run `doctor`, and return its exit code and its results."""
    command = [str(COMMAND), "doctor", "-n", "default", "--kubeconfig", str(kubeconfig), "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env=dict(os.environ))
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)["checks"]


def of_check(results: list[dict[str, Any]], name: str) -> list[tuple[str, str]]:
    return [(one["outcome"], one["message"]) for one in results if one["check"] == name]


def test_crds_of_this_release_have_its_schemas(bare_plane: ControlPlane) -> None:
    install_crds(bare_plane)
    code, results = examined(bare_plane.kubeconfig)
    assert of_check(results, "CRDs") == [
        ("OK", f"{len(KINDS)} of {len(KINDS)} CRDs are established, and have the schemas of release {RELEASE}")
    ]
    assert [outcome for outcome, _ in of_check(results, "API server") + of_check(results, "clock")] == ["OK", "OK"]
    # Nothing else is installed.
    assert (code, of_check(results, "operator")[0][0]) == (1, "PROBLEM")


def test_a_missing_crd_and_one_of_an_older_schema_are_problems_that_the_remedy_solves(
    bare_plane: ControlPlane, tmp_path: Path
) -> None:
    install_crds(bare_plane)
    older = yaml.safe_load((CRDS / "sluicegate.dev_brokerlisteners.yaml").read_text())
    [stored] = older["spec"]["versions"]
    del stored["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["bootstrap"]
    (tmp_path / "older.yaml").write_text(yaml.safe_dump(older))
    bare_plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(tmp_path / "older.yaml"))
    bare_plane.kubectl("delete", "crd", TOPICS)

    code, results = examined(bare_plane.kubeconfig)
    assert code == 1
    bad = {one["message"]: one["remedy"] for one in results if one["check"] == "CRDs" and one["outcome"] == "PROBLEM"}
    assert list(bad) == [
        f"{LISTENERS} has another schema than release {RELEASE}: it lacks the fields status.bootstrap",
        f"{TOPICS} does not exist, or does not serve sluicegate.dev/v1alpha1",
    ]
    assert all("kubectl apply --server-side -f crds" in remedy for remedy in bad.values())

    bare_plane.kubectl("apply", "--server-side", "-f", str(CRDS))
    bare_plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", str(CRDS))
    assert [outcome for outcome, _ in of_check(examined(bare_plane.kubeconfig)[1], "CRDs")] == ["OK"]


def test_a_user_without_rights_learns_what_is_skipped(bare_plane: ControlPlane, tmp_path: Path) -> None:
    bare_plane.kubectl("create", "serviceaccount", "visitor")
    document = json.loads(bare_plane.kubeconfig.read_text())
    document["users"][0]["user"] = {"token": bare_plane.kubectl("create", "token", "visitor").strip()}
    kubeconfig = tmp_path / "visitor"
    kubeconfig.write_text(json.dumps(document))

    code, results = examined(kubeconfig)
    assert code == 0
    assert [outcome for outcome, _ in of_check(results, "your rights")] == ["WARNING"] * 5
    skipped = {one["check"] for one in results if one["outcome"] == "SKIPPED"}
    assert {"CRDs", "operator", "operator's rights", "nodes", "network policies", "volumes", "objects"} <= skipped


def test_the_operators_rights_are_those_of_deploy(bare_plane: ControlPlane, tmp_path: Path) -> None:
    operator_account(bare_plane, tmp_path)
    bare_plane.kubectl("apply", "-f", str(REPOSITORY / "deploy" / "operator.yaml"))
    account = f"system:serviceaccount:{OPERATOR_NAMESPACE}:sluicegate-operator"
    _, results = examined(bare_plane.kubeconfig)
    [(outcome, words)] = of_check(results, "operator's rights")
    assert (outcome, words.startswith(f"{account} has all ")) == ("OK", True)
    assert ("PROBLEM", f"Deployment {OPERATOR_NAMESPACE}/sluicegate-operator: none of 1 replicas is ready") in of_check(
        results, "operator"
    )

    bare_plane.kubectl("delete", "clusterrolebinding", "sluicegate-operator")
    bad = of_check(examined(bare_plane.kubeconfig)[1], "operator's rights")
    assert {outcome for outcome, _ in bad} == {"PROBLEM"}
    assert any(words.endswith(" more in namespace default") for _, words in bad)

"""The chart on a real API server: installed, upgraded from an older one, uninstalled, installed again."""

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.waiting import wait_for
from tests.support.obtain.helm import CHART, NAMESPACE, RELEASE, HelmError, helm, render
from tests.support.processes.ports import free_port

pytestmark = pytest.mark.full

ANNOTATIONS = ("meta.helm.sh/release-name-", "meta.helm.sh/release-namespace-")
RELEASE_BYTES_MAX = 768 * 1024
"""Helm keeps chart and manifests of a release in one Secret, which is 1 MiB at most."""
BROKER_CLUSTER = "sluicegate.dev/v1alpha1/BrokerCluster"
TOPICS = "topics.sluicegate.dev"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        yield plane


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chart whose Topics had no short name yet."""
    chart = tmp_path_factory.mktemp("older") / "sluicegate"
    shutil.copytree(CHART, chart)
    file = chart / "files" / "crds" / f"sluicegate.dev_{TOPICS.partition('.')[0]}.yaml"
    text = file.read_text(encoding="utf-8")
    assert text.count("    shortNames:\n    - tp\n") == 1
    file.write_text(text.replace("    shortNames:\n    - tp\n", ""), encoding="utf-8")
    return chart


def test_the_life_of_a_release(plane: ControlPlane, older: Path) -> None:
    """The life without its last job, which would need a node: test_chart_uninstall.py has that."""

    def release(*words: str) -> str:
        return helm(*words, "--namespace", NAMESPACE, kubeconfig=plane.kubeconfig)

    def short_names() -> list[str]:
        names: dict[str, Any] = plane.get("crd", TOPICS)["spec"]["names"]
        return list(names.get("shortNames") or ())

    release("install", RELEASE, str(older), "--create-namespace", "--set", "guard.enabled=true,replicas=2")
    assert short_names() == []
    plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    with pytest.raises(HelmError, match="invalid ownership metadata"):
        release("install", "second", str(CHART), "--set", "crds.install=false")
    said = release("upgrade", RELEASE, str(CHART), "--set", "sampleCluster.enabled=true")
    assert "deployment/sluicegate-operator" in said
    [of_release] = plane.get("secret", "-n", NAMESPACE, "-l", "owner=helm,status=deployed")["items"]
    assert len(of_release["data"]["release"]) < RELEASE_BYTES_MAX
    assert short_names() == ["tp"]
    assert plane.get("brokercluster", "sample", "-n", NAMESPACE)["spec"]["brokers"]["replicas"] == 1

    release("uninstall", RELEASE, "--no-hooks")
    assert plane.kubectl("get", "deployments", "-n", NAMESPACE, "--output=name") == ""
    kept = plane.kubectl("get", "crd,brokerclusters,brokerlisteners", "--all-namespaces", "--output=name").split()
    assert len([name for name in kept if name.startswith("customresourcedefinition")]) == 8
    assert {name.rpartition("/")[2] for name in kept} >= {"sample", "sample-external"}
    release("install", RELEASE, str(CHART), "--set", "sampleCluster.enabled=true")
    release("uninstall", RELEASE, "--no-hooks")

    # CRDs made by `kubectl apply -f crds/` belong to no release.
    plane.kubectl("annotate", "crd", "--all", *ANNOTATIONS)
    plane.kubectl("label", "crd", "--all", "app.kubernetes.io/managed-by-")
    with pytest.raises(HelmError, match="invalid ownership metadata"):
        release("install", RELEASE, str(CHART))
    release("install", RELEASE, str(CHART), "--take-ownership")


def test_the_operators_pod_may_be_in_a_restricted_namespace(plane: ControlPlane) -> None:
    [deployment] = yaml.safe_load_all(render(show_only=("deployment.yaml",)))
    template = deployment["spec"]["template"]
    spec = template["spec"] | {"serviceAccountName": "default"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "operator"} | template["metadata"], "spec": spec}
    plane.kubectl("create", "namespace", "strict")
    plane.kubectl("label", "namespace", "strict", "pod-security.kubernetes.io/enforce=restricted")
    plane.kubectl("apply", "--dry-run=server", "-n", "strict", "-f", "-", input=json.dumps(pod))


def test_all_that_may_be_rendered_is_accepted(plane: ControlPlane) -> None:
    values = Path(__file__).parents[1] / "integration" / "chart" / "full-values.yaml"
    less = ["crds.install=false", "sampleCluster.enabled=false", "guard.enabled=true"]
    # This API server does not have cert-manager's CRDs; the operator's own certificate is rendered instead.
    less.append("admission.certManager.enabled=false")
    text = render(*less, files=(values,), namespace="elsewhere")
    for namespace in ("elsewhere", "shop"):
        plane.kubectl("create", "namespace", namespace)
    out = plane.kubectl("apply", "--dry-run=server", "-f", "-", input=text)
    assert len(out.splitlines()) == text.count("\nkind: ")


@contextmanager
def operator(kubeconfig: Path, identity: str, log: Path) -> Iterator[str]:
    """Run the operator with the arguments of the chart's pod, for the namespace `team`.

    Yields the address of its probes.
    """
    listener = f"127.0.0.1:{free_port()}"
    paths = os.pathsep.join([str(CHART.parents[1]), str(CHART.parents[1] / "operator")])
    settings = {"KUBECONFIG": str(kubeconfig), "PYTHONPATH": paths, "SLUICEGATE_IDENTITY": identity}
    words = [sys.executable, "-m", "sluicegate_operator", "--namespace", "team", "--metrics-listener", listener]
    with log.open("wb") as output:
        process = subprocess.Popen(words, env={**os.environ, **settings}, stdout=output, stderr=output)
    try:
        yield f"http://{listener}/"
    finally:
        process.terminate()
        process.wait(60)


def answer(address: str) -> str:
    """The body of a response; empty while there is none."""
    try:
        with urllib.request.urlopen(address, timeout=5) as reply:
            return str(reply.read().decode())
    except OSError:
        return ""


def is_ready(address: str) -> bool:
    return answer(f"{address}readyz") == "ok\n"


@pytest.fixture
def bare_plane() -> Iterator[ControlPlane]:
    """An API server whose CRDs are not Helm's."""
    with ControlPlane() as plane:
        yield plane


def test_an_operator_of_one_namespace_is_ready_with_its_rights_and_so_is_its_standby(
    bare_plane: ControlPlane, tmp_path: Path
) -> None:
    plane = bare_plane
    plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CHART / "files" / "crds"))
    values = ("watch.ownNamespace=true", "crds.install=false", "uninstall.releaseTopics=false")
    plane.kubectl("create", "namespace", "team")
    plane.kubectl("apply", "-f", "-", input=render(*values, namespace="team"))
    document = json.loads(plane.kubeconfig.read_text())
    token = plane.kubectl("create", "token", "sluicegate-operator", "-n", "team").strip()
    document["users"][0]["user"] = {"token": token}
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(document))
    with operator(kubeconfig, "leader", tmp_path / "leader") as leader:
        wait_for("the leader leads", lambda: "sluicegate_leading 1.0" in answer(f"{leader}metrics"), timeout_s=60)
        with operator(kubeconfig, "standby", tmp_path / "standby") as standby:
            for one in (leader, standby):
                wait_for(f"{one} is ready", partial(is_ready, one), timeout_s=60)
            assert "sluicegate_leading 0.0" in answer(f"{standby}metrics")
            cluster = render(
                *values,
                "sampleCluster.enabled=true",
                show_only=("sample-cluster.yaml",),
                api_versions=(BROKER_CLUSTER,),
                namespace="team",
            )
            plane.kubectl("apply", "-f", "-", input=cluster)
            made = ("get", "statefulsets", "-n", "team", "--output=name")
            wait_for("the sample has its nodes", lambda: len(plane.kubectl(*made).split()) == 2, timeout_s=60)

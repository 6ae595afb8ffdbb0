"""The parts of the process kubelet without processes: expansion, mount paths, names, probes, status, spread, files."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.process_kubelet.api import ApiRefused
from tests.support.processes.process_kubelet.container import last_words
from tests.support.processes.process_kubelet.delays import PUNCTUAL, Delays, PodDelays
from tests.support.processes.process_kubelet.downward import write_downward_files
from tests.support.processes.process_kubelet.names import NOBODY, NamedPod, NamedService, host_lines
from tests.support.processes.process_kubelet.probes import ProbeState
from tests.support.processes.process_kubelet.spread import Candidate, choose_node
from tests.support.processes.process_kubelet.status import PodView, pod_status
from tests.support.processes.process_kubelet.translate import Mounts, expand

NOW = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)/x", "1/x"),
        ("100$(A)", "1001"),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$$(A)", "$(A)"),
        ("$A $", "$A $"),
    ],
)
def test_variables_expand_as_kubernetes_defines_it(text: str, expanded: str) -> None:
    assert expand(text, {"A": "1"}) == expanded


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        ("/data", "/host/d"),
        ("log.dirs=/data/logs", "log.dirs=/host/d/logs"),
        ("/database", "/database"),
        ("/var/data", "/var/data"),
        ("/data/inner/x", "/host/i/x"),
        ("/data.old", "/data.old"),
        ("a=/data,b=/data/inner", "a=/host/d,b=/host/i"),
    ],
)
def test_a_mount_path_is_rewritten_only_where_it_begins_a_path(text: str, rewritten: str) -> None:
    assert Mounts({"/data": "/host/d", "/data/inner": "/host/i"}).rewrite(text) == rewritten


def test_a_pod_is_late_by_the_same_times_in_every_run() -> None:
    late = Delays(seed=7)
    assert late.of_pod("ns/b-0", 1) == Delays(seed=7).of_pod("ns/b-0", 1)
    assert late.of_pod("ns/b-0", 1) != late.of_pod("ns/b-0", 0)
    assert 0 <= late.of_pod("ns/b-0", 1).address_s <= 1
    assert PUNCTUAL.of_pod("ns/b-0", 1) == PodDelays(0, 0, 0)


def test_the_last_words_of_a_container_are_the_end_of_its_log() -> None:
    assert last_words(b"one\ntwo\n") == "one\ntwo\n"
    assert last_words(b"line\n" * 100) == "line\n" * 80
    assert last_words(b"x" * 3000) == "x" * 2048


def test_a_startup_probe_is_exhausted_by_its_failures_in_a_row() -> None:
    probe = ProbeState({"failureThreshold": 2}, passing=False, started_at=0.0)
    for succeeded, exhausted in ((False, False), (True, False), (False, False), (False, True)):
        probe.finish(0.0, succeeded=succeeded, message="")
        assert probe.exhausted is exhausted


def test_an_address_is_reported_late() -> None:
    status = pod_status(PodView("", [], [], [], []), NOW)
    assert "podIP" not in status
    assert "podIPs" not in status


def test_names_are_those_of_cluster_dns() -> None:
    labels = (("app", "b"),)
    pods = [
        NamedPod("ns", "b-0", "b", labels, "127.20.1.10", ready=True),
        NamedPod("ns", "b-1", "b", labels, "127.20.1.11", ready=False),
        NamedPod("other", "b-0", "", labels, "127.20.1.12", ready=True),
    ]
    services = [
        NamedService("ns", "b", labels, publishes_not_ready=True),
        NamedService("ns", "ready", labels, publishes_not_ready=False),
        NamedService("ns", "later", (("app", "c"),), publishes_not_ready=False, has_address=True),
        NamedService("ns", "headless", (("app", "c"),), publishes_not_ready=False),
    ]
    rows = [line.split() for line in host_lines(pods, services)]
    asked = ("b-1.b.ns.svc", "b.ns.svc", "ready.ns.svc", "later.ns.svc", "headless.ns.svc")
    resolved = {name: [row[0] for row in rows if name in row] for name in asked}
    assert resolved == {
        "b-1.b.ns.svc": ["127.20.1.11"],
        "b.ns.svc": ["127.20.1.10", "127.20.1.11"],
        "ready.ns.svc": ["127.20.1.10"],
        "later.ns.svc": [NOBODY],
        "headless.ns.svc": [],
    }


def test_a_probe_turns_only_after_its_threshold_in_a_row() -> None:
    probe = ProbeState({"periodSeconds": 2, "failureThreshold": 2}, passing=True, started_at=0.0)
    for now, succeeded in ((0.0, False), (2.0, True), (4.0, False)):
        assert probe.is_due(now)
        probe.begin()
        assert not probe.is_due(now)
        probe.finish(now, succeeded=succeeded, message="")
        assert probe.passing
        assert not probe.is_due(now + 1.9)
    probe.finish(6.0, succeeded=False, message="refused")
    assert not probe.passing


@pytest.mark.parametrize(("gate", "ready"), [("True", "True"), ("False", "False"), (None, "False")])
def test_a_pod_is_ready_when_its_containers_are_and_its_gates_are_open(gate: str | None, ready: str) -> None:
    container = {"name": "c", "ready": True, "started": True, "restartCount": 0, "state": {"running": {}}}
    stored = [{"type": "example.org/gate", "status": gate, "lastTransitionTime": NOW}] if gate else []
    status = pod_status(PodView("127.20.1.10", [], [container], ["example.org/gate"], stored), NOW)
    conditions = {condition["type"]: condition["status"] for condition in status["conditions"]}
    assert conditions["ContainersReady"] == "True"
    assert conditions["Ready"] == ready
    assert "example.org/gate" not in conditions, "only its owner writes it"


ZONE = "topology.kubernetes.io/zone"
SPREAD = [{"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "broker"}}}]


def a_pod(app: str = "broker", namespace: str = "here", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", "namespace": namespace, "labels": {"app": app}}, "spec": spec}


def nodes(*zones_and_apps: tuple[str, list[str]]) -> list[Candidate]:
    return [
        Candidate(f"n{n}", {ZONE: zone}, [a_pod(app) for app in apps]) for n, (zone, apps) in enumerate(zones_and_apps)
    ]


def test_a_pod_is_placed_on_the_emptiest_node_or_in_the_emptiest_zone() -> None:
    crowded = nodes(("a", ["broker"]), ("a", []), ("b", ["other", "other"]))
    assert choose_node(a_pod(), crowded) == "n1"
    assert choose_node(a_pod(topologySpreadConstraints=SPREAD), crowded) == "n2"


def test_a_pod_that_may_not_be_with_its_like_waits_for_a_node_of_its_own() -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "broker"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    assert choose_node(a_pod(affinity=apart), nodes(("a", ["broker"]), ("b", ["other", "other"]))) == "n1"
    assert choose_node(a_pod(affinity=apart), nodes(("a", ["broker"]), ("b", ["broker"]))) is None
    assert choose_node(a_pod(nodeSelector={ZONE: "b"}), nodes(("a", []), ("b", ["other"]))) == "n1"
    assert choose_node(a_pod(nodeSelector={ZONE: "c"}), nodes(("a", []), ("b", []))) is None


def test_pods_of_another_namespace_do_not_count_when_a_pod_is_spread() -> None:
    crowded = [
        Candidate("n0", {ZONE: "a"}, [a_pod(namespace="elsewhere"), a_pod(namespace="elsewhere")]),
        Candidate("n1", {ZONE: "b"}, [a_pod()]),
    ]
    assert choose_node(a_pod(topologySpreadConstraints=SPREAD), crowded) == "n0"


def test_a_pod_that_is_spread_goes_back_to_its_volume_unless_that_node_is_lost() -> None:
    spread = a_pod(topologySpreadConstraints=SPREAD)
    assert choose_node(spread, nodes(("a", ["broker"]), ("b", [])), "n0") == "n0"
    assert choose_node(spread, nodes(("a", ["broker"]), ("b", [])), "lost") == "n1"


def test_a_downward_file_follows_the_annotation_and_is_empty_without_it(tmp_path: Path) -> None:
    item = {"path": "rack", "fieldRef": {"fieldPath": "metadata.annotations['sluicegate.dev/rack']"}}
    pod = a_pod(volumes=[{"name": "pod", "downwardAPI": {"items": [item]}}, {"name": "other"}])
    write_downward_files(pod, {"pod": tmp_path})
    assert (tmp_path / "rack").read_text() == ""
    pod["metadata"]["annotations"] = {"sluicegate.dev/rack": "a"}
    write_downward_files(pod, {"pod": tmp_path})
    assert (tmp_path / "rack").read_text() == "a"
    assert [file.name for file in tmp_path.iterdir()] == ["rack"]


@pytest.mark.parametrize(
    ("codes", "phase"), [((0, 0), "Succeeded"), ((0, 3), "Failed"), ((0, None), "Running"), ((), "Running")]
)
def test_a_pod_has_ended_when_all_of_its_containers_have_for_good(codes: tuple[int | None, ...], phase: str) -> None:
    status = {"state": {"terminated": {}}, "ready": False, "started": False}
    view = PodView("127.20.0.1", [], [status], [], [], exit_codes=codes)
    assert pod_status(view, NOW)["phase"] == phase


@pytest.mark.parametrize(
    ("status", "cause", "overtaken"),
    [
        (404, None, True),
        (409, None, True),
        (403, "NamespaceTerminating", True),
        (403, None, False),
        (422, "FieldValueInvalid", False),
    ],
)
def test_a_refusal_because_of_a_deleted_object_counts_as_overtaken(
    status: int, cause: str | None, overtaken: bool
) -> None:
    details = {"causes": [{"reason": cause, "field": "metadata.namespace"}]} if cause else {"name": "mini-0"}
    refused = ApiRefused(status, {"kind": "Status", "message": "refused", "details": details})
    assert refused.is_overtaken is overtaken
    assert str(refused) == f"{status}: refused"

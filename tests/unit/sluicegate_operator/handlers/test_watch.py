"""The clusters that each event marks, by queue."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from sluicegate_operator.api.manifests import parse_resource
from sluicegate_operator.engine.context.first_seen import FirstSeen
from sluicegate_operator.handlers.context import Departed
from sluicegate_operator.handlers.watch import Watch
from sluicegate_operator.kube.cache.cached_object import CachedObject, Reader
from sluicegate_operator.kube.http.kinds import (
    AUDIT_PIPELINE,
    BROKER_CLUSTER,
    BROKER_LISTENER,
    BROKER_REGISTRATION,
    CONFIG_MAP,
    CONNECTION_QUOTA,
    NETWORK_POLICY,
    OBSERVER_PLUGIN,
    POD,
    SERVICE,
    STATEFUL_SET,
    TOPIC,
    Kind,
)
from sluicegate_operator.resources.audit.audit_files import COMPONENT
from sluicegate_operator.resources.labels import CLUSTER_LABEL, RACK, labels, selector

SHOP = ("default", "shop")


class Marks:
    def __init__(self) -> None:
        self.keys: list[tuple[str, str]] = []

    def mark(self, key: tuple[str, str], delay_s: float = 0.0) -> None:
        self.keys.append(key)


def body(kind: Kind, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "generation": 1}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": spec}


def pod(ip: str, ready: bool) -> dict[str, Any]:
    labels = selector("shop", "broker")
    status = {"podIP": ip, "conditions": [{"type": "Ready", "status": str(ready)}]}
    return {
        "metadata": {"name": "shop-brokers-0", "namespace": "default", "uid": "p", "labels": labels},
        "status": status,
    }


QUEUES = (
    "quotas",
    "statuses",
    "observed",
    "clusters",
    "listeners",
    "topics",
    "registrations",
    "racks",
    "rolls",
    "configs",
    "descriptions",
    "observers",
    "pipelines",
    "users",
)


@pytest.fixture
def queues() -> dict[str, Marks]:
    return {name: Marks() for name in QUEUES}


@dataclass
class Told:
    """A watch and the content of its cache."""

    watch: Watch
    cached: dict[tuple[str, str], CachedObject] = field(default_factory=dict)


def watch_of(queues: dict[str, Marks]) -> Told:
    return Told(Watch(FirstSeen(), queues, {}))  # type: ignore[arg-type]


def told(watch: Told, kind: Kind, type_: str, item: dict[str, Any]) -> None:
    cached = Reader().read(kind, item)
    before = watch.cached.pop((kind.kind, cached.uid), None)
    after = None if type_ == "DELETED" else cached
    if after is not None:
        watch.cached[kind.kind, cached.uid] = after
    if before is not None or after is not None:
        watch.watch.on_change(kind, before, after)


REF = {"clusterRef": {"name": "shop"}}


@pytest.mark.parametrize(
    ("kind", "name", "spec", "marked"),
    [
        (CONNECTION_QUOTA, "q", REF, {"quotas"}),
        (BROKER_LISTENER, "l", REF, {"quotas", "clusters", "listeners", "rolls"}),
        (BROKER_CLUSTER, "shop", {}, set(QUEUES)),
        (OBSERVER_PLUGIN, "o", REF, {"observers"}),
        (AUDIT_PIPELINE, "a", REF, {"pipelines"}),
        (TOPIC, "t", REF, {"topics"}),
    ],
)
def test_an_event_marks_the_queues_that_it_concerns(
    queues: dict[str, Marks], kind: Kind, name: str, spec: dict[str, Any], marked: set[str]
) -> None:
    async def run() -> None:
        told(watch_of(queues), kind, "MODIFIED", body(kind, name, spec))

    asyncio.run(run())
    assert {queue for queue, marks in queues.items() if marks.keys == [SHOP]} == marked


RESULTS = {"results": {"uri": "s3://answers/all"}}


@pytest.mark.parametrize(
    ("kind", "spec", "changed", "marked"),
    [
        (AUDIT_PIPELINE, RESULTS, {"results": {"uri": "s3://answers/other"}}, True),
        (AUDIT_PIPELINE, {"results": {"uri": "s3://answers/other"}}, RESULTS, True),
        (AUDIT_PIPELINE, RESULTS, None, True),
        (AUDIT_PIPELINE, RESULTS, RESULTS | {"executors": "many"}, True),
        (AUDIT_PIPELINE, {"results": {"claimName": "all"}}, {"results": {"uri": "s3://answers/other"}}, False),
        (BROKER_CLUSTER, {}, {"audit": {"landing": {"uri": "s3://answers"}}}, True),
        (BROKER_CLUSTER, {}, {"audit": {"landing": {"uri": "s3://audit"}}}, False),
    ],
)
async def test_a_change_of_a_place_marks_the_pipelines_of_other_clusters_that_it_concerns(
    queues: dict[str, Marks], kind: Kind, spec: dict[str, Any], changed: dict[str, Any] | None, marked: bool
) -> None:
    watch = watch_of(queues)
    told(watch, AUDIT_PIPELINE, "ADDED", body(AUDIT_PIPELINE, "young", REF | RESULTS))
    least: dict[str, Any] = {"brokers": {"replicas": 1, "storage": {"size": "1Gi"}}}
    if kind is AUDIT_PIPELINE:
        least = {"clusterRef": {"name": "bank"}}
    item = body(kind, "bank", least | spec)
    told(watch, kind, "ADDED", item)
    queues["pipelines"].keys.clear()
    item = {**item, "metadata": {**item["metadata"], "generation": 2}}
    if changed is None:
        told(watch, kind, "DELETED", item)
    else:
        told(watch, kind, "MODIFIED", {**item, "spec": least | changed})
    assert set(queues["pipelines"].keys) == {("default", "bank"), *([SHOP] if marked else [])}


def test_each_deleted_cluster_of_a_name_is_remembered_until_its_claims_are_looked_at(queues: dict[str, Marks]) -> None:
    departed: Departed = {}
    watch = Watch(FirstSeen(), queues, departed)  # type: ignore[arg-type]
    spec = {"brokers": {"replicas": 1, "storage": {"size": "1Gi"}}, "storage": {"deleteClaims": True}}
    item = body(BROKER_CLUSTER, "shop", spec)

    def of(uid: str) -> CachedObject:
        return Reader().read(BROKER_CLUSTER, {**item, "metadata": {**item["metadata"], "uid": uid}})

    watch.on_change(BROKER_CLUSTER, of("first"), None)
    # The watch may report the next object in place of the previous one.
    watch.on_change(BROKER_CLUSTER, of("second"), of("third"))
    watch.on_change(BROKER_CLUSTER, of("third"), None)
    assert list(departed[SHOP]) == ["first", "second", "third"]


@pytest.mark.parametrize("spec", [{"brokers": {"replicas": 1, "storage": {"size": "1Gi"}}}, {"brokers": "unreadable"}])
@pytest.mark.parametrize("finalizers", [[], ["orphan"], ["orphan", "example.com/other"], ["foregroundDeletion"]])
def test_a_cluster_that_is_deleted_with_cascade_orphan_keeps_its_claims(
    queues: dict[str, Marks], finalizers: list[str], spec: dict[str, Any]
) -> None:
    departed: Departed = {}
    watch = Watch(FirstSeen(), queues, departed)  # type: ignore[arg-type]
    item = body(BROKER_CLUSTER, "shop", spec | {"storage": {"deleteClaims": True}})

    def of(**meta: Any) -> CachedObject:
        return Reader().read(BROKER_CLUSTER, {**item, "metadata": item["metadata"] | meta})

    living = of()
    going = of(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=finalizers)
    left = of(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=[one for one in finalizers if one != "orphan"])
    for before, after in ((None, living), (living, going), (going, left), (left, None)):
        watch.on_change(BROKER_CLUSTER, before, after)
    assert list(departed.get(SHOP, ())) == ([] if "orphan" in finalizers else ["uid-shop"])


def test_the_operators_own_status_writes_mark_no_queue(queues: dict[str, Marks]) -> None:
    seen = body(CONNECTION_QUOTA, "q", REF)
    labelled = {**seen, "metadata": seen["metadata"] | {"labels": {"team": "a"}}}
    changed = {**labelled, "metadata": labelled["metadata"] | {"generation": 2}}

    async def run() -> list[int]:
        watch, marked = watch_of(queues), []
        for event, item in (
            ("ADDED", seen),
            ("MODIFIED", {**seen, "status": {"brokers": "3/3"}}),
            ("MODIFIED", labelled),
            ("MODIFIED", changed),
            ("MODIFIED", {**changed, "status": {"brokers": "2/3"}}),
            # Listed again, with no event missed.
            ("MODIFIED", changed),
            ("DELETED", changed),
        ):
            told(watch, CONNECTION_QUOTA, event, item)
            marked.append(len(queues["quotas"].keys))
        return marked

    assert asyncio.run(run()) == [1, 1, 2, 3, 3, 3, 4]


def test_a_changed_or_deleted_stateful_set_marks_its_cluster(queues: dict[str, Marks]) -> None:
    def node_set(generation: int, ready: int = 3) -> dict[str, Any]:
        meta = {"name": "shop-brokers", "namespace": "default", "uid": "s", "labels": {CLUSTER_LABEL: "shop"}}
        spec = {"replicas": 3, "template": {"spec": {}}}
        return {"metadata": meta | {"generation": generation}, "spec": spec, "status": {"readyReplicas": ready}}

    watch, marked = watch_of(queues), []
    for event, item in (
        ("ADDED", node_set(1)),
        ("MODIFIED", node_set(1, ready=2)),
        ("MODIFIED", node_set(2)),
        ("MODIFIED", node_set(2)),
        ("DELETED", node_set(2)),
        ("ADDED", node_set(1)),
    ):
        told(watch, STATEFUL_SET, event, item)
        marked.append(len(queues["rolls"].keys))
    assert marked == [0, 0, 1, 1, 2, 2]
    assert {queue: marks.keys for queue, marks in queues.items() if marks.keys} == {
        "clusters": [SHOP, SHOP],
        "rolls": [SHOP, SHOP],
    }


def test_a_pipelines_run_marks_the_pipelines_queue_when_its_phase_changes(queues: dict[str, Marks]) -> None:
    async def run() -> None:
        watch = watch_of(queues)
        for phase in ("Pending", "Running", "Running", "Succeeded"):
            told(watch, POD, "MODIFIED", a_run(phase))
        told(watch, POD, "DELETED", a_run("Succeeded"))

    asyncio.run(run())
    assert {name: len(marks.keys) for name, marks in queues.items() if marks.keys} == {"pipelines": 4}


def a_run(phase: str) -> dict[str, Any]:
    labels = {CLUSTER_LABEL: "shop", "sluicegate.dev/pipeline": "daily"}
    meta = {"name": "daily-1-abcde", "namespace": "default", "uid": "r", "labels": labels}
    return {"metadata": meta, "status": {"phase": phase}}


def test_a_pod_is_news_only_when_its_address_or_readiness_changes(queues: dict[str, Marks]) -> None:
    async def run() -> None:
        watch = watch_of(queues)
        for state in (("10.0.0.1", False), ("10.0.0.1", False), ("10.0.0.1", True), ("10.0.0.1", True)):
            told(watch, POD, "MODIFIED", pod(*state))
        told(watch, POD, "DELETED", pod("10.0.0.1", True))
        told(watch, POD, "DELETED", pod("10.0.0.1", True))

    asyncio.run(run())
    assert queues["quotas"].keys == [SHOP] * 3
    assert queues["registrations"].keys == [SHOP] * 3


def test_a_pod_whose_node_is_lost_is_news_for_the_registrations_alone(queues: dict[str, Marks]) -> None:
    lost = pod("10.0.0.1", False)
    lost["status"]["conditions"].append({"type": "ContainersReady", "status": "True"})

    async def run() -> None:
        watch = watch_of(queues)
        told(watch, POD, "MODIFIED", pod("10.0.0.1", False))
        told(watch, POD, "MODIFIED", lost)

    asyncio.run(run())
    assert (len(queues["quotas"].keys), len(queues["registrations"].keys)) == (1, 2)


def test_a_pod_that_is_scheduled_or_got_its_rack_marks_the_racks_queue(queues: dict[str, Marks]) -> None:
    bound = {**pod("", False), "spec": {"nodeName": "n1"}}
    racked = {**bound, "metadata": bound["metadata"] | {"annotations": {RACK: "a"}}}

    async def run() -> None:
        watch = watch_of(queues)
        for seen in (pod("", False), bound, bound, racked, racked):
            told(watch, POD, "MODIFIED", seen)

    asyncio.run(run())
    assert (queues["racks"].keys, queues["quotas"].keys) == ([SHOP] * 2, [])


@pytest.mark.parametrize("label", sorted(selector("shop", "broker")))
@pytest.mark.parametrize("value", [None, "others"])
def test_a_pod_that_loses_a_label_marks_the_queue_that_restores_it(
    queues: dict[str, Marks], label: str, value: str | None
) -> None:
    labelled = pod("10.0.0.1", True)
    kept = {key: said for key, said in labelled["metadata"]["labels"].items() if key != label}
    others = kept if value is None else {**kept, label: value}
    lost = {**labelled, "metadata": labelled["metadata"] | {"labels": others}}

    async def run() -> None:
        watch = watch_of(queues)
        told(watch, POD, "ADDED", labelled)
        # Without the label of the watch the pod counts as deleted.
        told(watch, POD, "DELETED" if CLUSTER_LABEL not in others else "MODIFIED", lost)

    asyncio.run(run())
    assert queues["registrations"].keys[1:].count(SHOP) == 1
    if label != "app.kubernetes.io/name":
        assert queues["quotas"].keys.count(SHOP) == 2, "the broker is not found any more"
    if (label, value) == (CLUSTER_LABEL, "others"):
        assert ("default", "others") in queues["registrations"].keys


def test_a_registration_that_somebody_deletes_or_changes_is_made_again(queues: dict[str, Marks]) -> None:
    seen = body(BROKER_REGISTRATION, "shop-0", {"brokerId": 0})
    seen["metadata"]["labels"] = {CLUSTER_LABEL: "shop"}
    unlabelled = {**seen, "metadata": seen["metadata"] | {"labels": {}}}

    async def run() -> list[int]:
        watch, marked = watch_of(queues), []
        for event, item in (
            ("ADDED", seen),
            ("MODIFIED", {**seen, "status": {"state": "Online"}}),
            ("MODIFIED", unlabelled),
            ("MODIFIED", seen),
            ("DELETED", seen),
        ):
            told(watch, BROKER_REGISTRATION, event, item)
            marked.append(len(queues["registrations"].keys))
        return marked

    assert asyncio.run(run()) == [0, 0, 1, 2, 3]


@pytest.mark.parametrize(
    ("kind", "beside"), [(SERVICE, "listeners"), (CONFIG_MAP, "observers"), (NETWORK_POLICY, "listeners")]
)
def test_a_changed_or_deleted_child_marks_its_cluster_at_once(
    queues: dict[str, Marks], kind: Kind, beside: str
) -> None:
    made = body(kind, "shop-brokers", {})
    made["metadata"] |= {"labels": {CLUSTER_LABEL: "shop"}, "resourceVersion": "5"}
    if kind is not NETWORK_POLICY:
        del made["metadata"]["generation"]
    other = {"resourceVersion": "6", **({"generation": 2} if kind is NETWORK_POLICY else {})}
    changed = {**made, "metadata": made["metadata"] | other}

    async def run() -> list[int]:
        watch, marked = watch_of(queues), []
        for event, item in (("ADDED", made), ("MODIFIED", made), ("MODIFIED", changed), ("DELETED", changed)):
            told(watch, kind, event, item)
            marked.append(len(queues["clusters"].keys))
        return marked

    assert asyncio.run(run()) == [0, 0, 1, 2]
    assert queues[beside].keys == [SHOP] * 2
    assert {name for name, marks in queues.items() if marks.keys} == {"clusters", beside}


def test_the_files_of_a_pipeline_that_somebody_deletes_mark_the_pipelines_alone(queues: dict[str, Marks]) -> None:
    made = body(CONFIG_MAP, "moves-files", {})
    made["metadata"] |= {"labels": labels("shop", COMPONENT), "resourceVersion": "5"}

    async def run() -> None:
        watch = watch_of(queues)
        for event in ("ADDED", "DELETED"):
            told(watch, CONFIG_MAP, event, made)

    asyncio.run(run())
    assert queues["pipelines"].keys == [SHOP]
    assert {name for name, marks in queues.items() if marks.keys} == {"pipelines"}


def test_a_container_that_ended_is_news_also_when_the_next_one_runs_already(queues: dict[str, Marks]) -> None:
    """A kubelet may report the end and the next start in one event."""

    def after(end: str) -> dict[str, Any]:
        crashed = pod("10.0.0.1", False)
        status = {"name": "broker", "state": {"running": {}}, "lastState": {"terminated": {"finishedAt": end}}}
        crashed["status"]["containerStatuses"] = [status]
        return crashed

    async def run() -> None:
        watch = watch_of(queues)
        told(watch, POD, "MODIFIED", pod("10.0.0.1", False))
        for end in ("2026-01-01T00:00:05Z", "2026-01-01T00:00:05Z", "2026-01-01T00:00:09Z"):
            told(watch, POD, "MODIFIED", after(end))

    asyncio.run(run())
    assert queues["registrations"].keys == [SHOP] * 3


def test_each_generation_keeps_the_time_it_was_first_seen() -> None:
    seen = FirstSeen()
    item = body(CONNECTION_QUOTA, "q", {**REF, "target": {"broker": {}}, "maxConnectionCreationRate": 5})
    quota = parse_resource(item)
    seen.note(item)
    first = seen.of(quota)
    assert first is not None
    seen.note(item)
    assert seen.of(quota) is first
    item["metadata"]["generation"] = 2
    seen.note(item)
    newer = seen.of(parse_resource(item))
    assert newer is not None
    assert newer >= first
    item["metadata"]["generation"] = 1
    seen.note(item)
    assert seen.of(quota) is None, "nobody asks for what is older"
    seen.forget("uid-q")
    assert seen.of(quota) is None


def test_the_first_seen_time_of_a_recreated_objects_predecessor_is_forgotten(queues: dict[str, Marks]) -> None:
    seen = FirstSeen()
    watch = Watch(seen, queues, {})  # type: ignore[arg-type]
    item = body(CONNECTION_QUOTA, "q", {**REF, "target": {"broker": {}}, "maxConnectionCreationRate": 5})
    before, quota = Reader().read(CONNECTION_QUOTA, item), parse_resource(item)
    watch.on_change(CONNECTION_QUOTA, None, before)
    item["metadata"]["uid"] = "uid-of-the-next"
    watch.on_change(CONNECTION_QUOTA, before, Reader().read(CONNECTION_QUOTA, item))
    assert seen.of(quota) is None
    assert seen.of(parse_resource(item)) is not None

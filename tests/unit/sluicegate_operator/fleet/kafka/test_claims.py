"""Volume claims are deleted with their BrokerCluster if it says so, however late, and only those with its data."""

from typing import Any

import pytest

from sluicegate_operator.api import BrokerCluster, parse_resource
from sluicegate_operator.fleet.kafka.claims import (
    keep_template_size,
    make_claims,
    own_claims,
    reconcile_claims,
    template_size,
)
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.reconcilers.clusters import STARTING_RETRY, ClusterReconciler
from sluicegate_operator.kube.http.errors import ClaimsTakenError, KubeConflictError, KubeError
from sluicegate_operator.kube.http.kinds import PERSISTENT_VOLUME_CLAIM
from sluicegate_operator.planning.layout.children import cluster_children
from sluicegate_operator.planning.layout.cluster_layout import Role, cluster_id
from sluicegate_operator.resources.labels import CLUSTER_ID, CLUSTER_LABEL
from sluicegate_operator.settings import read_settings
from tests.support.fakes.kube.memory_kube import Json, MemoryKube
from tests.support.manifests.bad_manifests import cluster

FIRST, SECOND, THIRD = (f"5a9d8f64-0000-4000-8000-00000000000{number}" for number in (1, 2, 3))
MADE = "2026-01-01T00:00:00+00:00"
STATEFUL_SET = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "shop-brokers", "uid": "of-the-set"}


def shop(*, uid: str = "of-the-shop", **spec: Any) -> Json:
    return {
        **cluster(**spec),
        "metadata": {"name": "shop", "namespace": "default", "uid": uid, "creationTimestamp": MADE},
    }


def parsed(body: Json) -> BrokerCluster:
    found = parse_resource(body)
    assert isinstance(found, BrokerCluster)
    return found


def claim(ordinal: int, holds: str | None, *owners: Json) -> Json:
    return {
        "apiVersion": "v1",
        "kind": PERSISTENT_VOLUME_CLAIM.kind,
        "metadata": {
            "name": f"data-shop-brokers-{ordinal}",
            "labels": {CLUSTER_LABEL: "shop"},
            "annotations": {} if holds is None else {CLUSTER_ID: holds},
            "creationTimestamp": MADE,
            "ownerReferences": list(owners),
        },
        "spec": {"resources": {"requests": {"storage": "10Gi"}}, "storageClassName": "fast"},
        "status": {"phase": "Bound", "capacity": {"storage": "10Gi"}},
    }


def owners(kube: MemoryKube, ordinal: int) -> list[str]:
    found = kube.take(PERSISTENT_VOLUME_CLAIM.kind, f"data-shop-brokers-{ordinal}")["metadata"]["ownerReferences"]
    return [owner["uid"] for owner in found]


async def test_claims_are_deleted_with_their_cluster_if_its_spec_says_so() -> None:
    going, staying = parsed(shop(storage={"deleteClaims": True})), parsed(shop())
    own = cluster_id(going)
    # Of a broker that was scaled away, with a mark; one without; one of a StatefulSet; another cluster's.
    kube = MemoryKube(claim(9, own), claim(1, None), claim(2, own, STATEFUL_SET), claim(8, "of another cluster"))
    for _ in range(2):
        await reconcile_claims(kube, going, 3, started=True)  # type: ignore[arg-type]
        assert owners(kube, 9) == owners(kube, 1) == ["of-the-shop"]
        assert owners(kube, 2) == ["of-the-set", "of-the-shop"]
        assert owners(kube, 8) == []
    await reconcile_claims(kube, staying, 3, started=True)  # type: ignore[arg-type]
    assert [owners(kube, ordinal) for ordinal in (9, 1, 2)] == [[], [], ["of-the-set"]]


async def test_a_claim_that_another_client_writes_meanwhile_is_a_conflict_that_is_retried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    going = parsed(shop(storage={"deleteClaims": True}))
    kube = MemoryKube(claim(0, cluster_id(going)))
    listed = kube.list

    async def written_meanwhile(*which: Any, **options: Any) -> list[Json]:
        found = await listed(*which, **options)
        kube.put(claim(0, cluster_id(going), STATEFUL_SET))
        return found

    with monkeypatch.context() as patched:
        patched.setattr(kube, "list", written_meanwhile)
        with pytest.raises(KubeConflictError):
            await own_claims(kube, going)  # type: ignore[arg-type]
    assert owners(kube, 0) == ["of-the-set"]
    await own_claims(kube, going)  # type: ignore[arg-type]
    assert owners(kube, 0) == ["of-the-set", "of-the-shop"]


@pytest.mark.parametrize("deletes", [True, False])
async def test_a_deleted_clusters_last_spec_decides_about_its_claims(deletes: bool) -> None:
    gone = shop(storage={"deleteClaims": deletes})
    kube = MemoryKube(claim(0, cluster_id(parsed(gone))))
    await _reconcile(kube, gone)
    assert owners(kube, 0) == (["of-the-shop"] if deletes else [])


async def test_claims_that_the_next_cluster_has_taken_up_are_not_those_of_the_one_before() -> None:
    storage: Json = {"deleteClaims": True}
    of_both = cluster_id(parsed(shop()))
    gone = shop(storage=storage, clusterId=of_both)
    kube = MemoryKube(claim(0, of_both), shop(uid="of-the-next", clusterId=of_both, paused=True))
    await _reconcile(kube, gone)
    assert owners(kube, 0) == []


class Racing(MemoryKube):
    """Another client writes the claim of broker 0 once between the operator's read and its write."""

    raced = False

    async def patch_metadata(self, kind: Any, namespace: str, name: str, *more: Any, **spec: Any) -> None:
        if name == "data-shop-brokers-0" and not self.raced:
            self.raced = True
            self.take(kind.kind, name)["metadata"]["resourceVersion"] = "newer"
        await super().patch_metadata(kind, namespace, name, *more, **spec)


async def test_a_claim_of_a_deleted_cluster_that_another_client_writes_meanwhile_is_retried() -> None:
    gone = parsed(shop(storage={"deleteClaims": True}))
    kube = Racing(claim(0, cluster_id(gone)), claim(1, cluster_id(gone)))
    context = Context(kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
    context.mark = lambda queue, key: None
    context.departed["default", "shop"] = {"of-the-shop": gone}
    reconciler = ClusterReconciler(context)
    assert await reconciler.reconcile(("default", "shop")) == STARTING_RETRY
    assert (owners(kube, 0), owners(kube, 1)) == ([], ["of-the-shop"])
    assert list(context.departed["default", "shop"]) == ["of-the-shop"]
    await reconciler.reconcile(("default", "shop"))
    assert owners(kube, 0) == ["of-the-shop"]
    assert not context.departed
    await context.aclose()


class Protecting(MemoryKube):
    """Refuses to change the claim of broker 0, with this `status`."""

    status: int | None = 403

    async def patch_metadata(self, kind: Any, namespace: str, name: str, *more: Any, **spec: Any) -> None:
        if name == "data-shop-brokers-0" and self.status is not None:
            raise KubeError(f"PATCH {name}: {self.status} denied by a policy", self.status)
        await super().patch_metadata(kind, namespace, name, *more, **spec)


async def test_a_refused_claim_of_a_deleted_cluster_delays_no_other_claim_and_no_new_cluster() -> None:
    first, second = (parsed(shop(uid=uid, storage={"deleteClaims": True})) for uid in (FIRST, SECOND))
    ids = cluster_id(first), cluster_id(second)
    kube = Protecting(claim(0, ids[0]), claim(8, ids[0]), claim(9, ids[1]), shop(uid=THIRD))
    context = Context(kube, read_settings({"SLUICEGATE_SETTLE_SECONDS": "0"}, None, None, None))  # type: ignore[arg-type]
    context.mark = lambda queue, key: None
    context.departed["default", "shop"] = {FIRST: first, SECOND: second}
    reconciler = ClusterReconciler(context)
    for _ in range(2):
        await reconciler.reconcile(("default", "shop"))
    assert (owners(kube, 0), owners(kube, 8), owners(kube, 9)) == ([], [FIRST], [SECOND])
    assert list(context.departed["default", "shop"]) == [FIRST]
    assert kube.take("BrokerCluster", "shop")["status"]["conditions"] != []
    [event] = kube.events("Refused")
    assert (event["type"], event["count"]) == ("Warning", 1)
    assert "PATCH data-shop-brokers-0: 403 denied by a policy" in event["message"]
    kube.status = None
    await reconciler.reconcile(("default", "shop"))
    assert owners(kube, 0) == [FIRST]
    assert not context.departed
    await context.aclose()


@pytest.mark.parametrize(
    "spec", [{"storage": {"deleteClaims": True}}, {}, {"brokers": {"replicas": 2, "storage": {"size": "20Gi"}}}]
)
@pytest.mark.parametrize("label", [True, False])
async def test_a_claim_that_is_deleted_between_reading_and_writing_is_read_again(spec: Json, label: bool) -> None:
    of = parsed(shop(**spec))
    kube = Protecting(claim(0, cluster_id(of) if label else None), claim(1, cluster_id(of)))
    kube.status = 404
    if not label or "brokers" in spec:
        with pytest.raises(KubeConflictError, match="data-shop-brokers-0 has been deleted in the meantime"):
            await reconcile_claims(kube, of, 2, started=True)  # type: ignore[arg-type]
    else:
        seen = await reconcile_claims(kube, of, 2, started=True)  # type: ignore[arg-type]
        assert isinstance(seen.retried, KubeConflictError) is bool(spec)
        assert owners(kube, 1) == (["of-the-shop"] if spec else [])


@pytest.mark.parametrize("holds", [True, False])
async def test_a_claim_that_may_not_be_changed_is_named_and_keeps_no_node_waiting(holds: bool) -> None:
    of = parsed(shop(storage={"deleteClaims": True}))
    own = cluster_id(of)
    kube = Protecting(claim(0, own if holds else None), claim(1, own))
    seen = await reconcile_claims(kube, of, 3, started=True)  # type: ignore[arg-type]
    assert owners(kube, 1) == ["of-the-shop"]
    assert "PATCH data-shop-brokers-0: 403 denied by a policy" in seen.volumes.refused
    assert [(new.role, new.ordinal) for new in seen.make] == [(Role.BROKER, 2), (Role.CONTROLLER, 0)]


@pytest.mark.parametrize("templates", [None, [], [{"metadata": {"name": "data"}, "spec": {}}]])
async def test_a_stateful_set_without_claims_that_was_handed_over_is_refused_in_words(templates: Any) -> None:
    labels = {"app.kubernetes.io/managed-by": "sluicegate-operator", CLUSTER_LABEL: "shop"}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {}}
    spec = {"replicas": 1, "template": template, **({} if templates is None else {"volumeClaimTemplates": templates})}
    handed = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "shop-brokers", "labels": labels}}
    kube = MemoryKube(shop(), {**handed, "spec": spec})
    context = Context(kube, read_settings({"SLUICEGATE_SETTLE_SECONDS": "0"}, None, None, None))  # type: ignore[arg-type]
    context.mark = lambda queue, key: None
    await ClusterReconciler(context).reconcile(("default", "shop"))
    stalled = kube.condition("BrokerCluster", "shop", "Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "Refused")
    assert "StatefulSet shop-brokers has no volumeClaimTemplates" in stalled["message"]
    assert "kubectl delete statefulset shop-brokers" in stalled["message"]
    await context.aclose()


def asked(kube: MemoryKube, ordinal: int) -> str:
    found = kube.take(PERSISTENT_VOLUME_CLAIM.kind, f"data-shop-brokers-{ordinal}")["spec"]["resources"]
    return str(found["requests"]["storage"])


def grown(replicas: int = 2) -> BrokerCluster:
    return parsed(shop(brokers={"replicas": replicas, "storage": {"size": "20Gi"}}))


NODE_SETS: Json = {
    Role.BROKER: {"spec": {"volumeClaimTemplates": [{"spec": {"resources": {"requests": {"storage": "10Gi"}}}}]}}
}


async def test_volumes_grow_and_new_ones_are_as_large() -> None:
    own = cluster_id(grown())
    kube = MemoryKube(claim(0, own), claim(1, own))
    for _ in range(2):
        claims = await reconcile_claims(kube, grown(3), 3, started=True)  # type: ignore[arg-type]
        await make_claims(kube, grown(3), claims.make)  # type: ignore[arg-type]
        seen = claims.volumes
        assert [asked(kube, ordinal) for ordinal in range(3)] == ["20Gi"] * 3
        assert (seen.status.brokers, seen.refused) == ("20Gi", "")
    made = kube.take(PERSISTENT_VOLUME_CLAIM.kind, "data-shop-brokers-2")
    assert made["metadata"]["labels"][CLUSTER_LABEL] == "shop"
    assert made["metadata"]["annotations"] == {CLUSTER_ID: own}
    assert seen.status.growing == (
        "data-shop-brokers-0 has 10Gi of 20Gi: the rest has been requested from Kubernetes",
        "data-shop-brokers-1 has 10Gi of 20Gi: the rest has been requested from Kubernetes",
    )


async def test_a_class_that_lets_nothing_grow_is_named_with_each_claim() -> None:
    own = cluster_id(grown())
    kube = MemoryKube(claim(0, own), claim(1, own))
    kube.refuses[PERSISTENT_VOLUME_CLAIM.kind] = "the storageclass must support resize"
    seen = (await reconcile_claims(kube, grown(), 2, started=True)).volumes  # type: ignore[arg-type]
    assert [asked(kube, ordinal) for ordinal in range(2)] == ["10Gi"] * 2
    assert "the storageclass must support resize" in seen.refused
    assert seen.status.brokers == "10Gi"
    assert [sentence.split()[0] for sentence in seen.status.growing] == ["data-shop-brokers-0", "data-shop-brokers-1"]


@pytest.mark.parametrize("retriable", [False, True])
async def test_a_claim_that_cannot_grow_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, retriable: bool
) -> None:
    """A 403 counts as one that may pass for a minute, and the admission plugin for sizes answers 403."""
    own = cluster_id(grown(3))
    kube = MemoryKube(*(claim(ordinal, own) for ordinal in range(3)))
    patch = kube.patch_metadata

    async def not_the_first(kind: Any, namespace: str, name: str, *rest: Any, **spec: Any) -> None:
        if name == "data-shop-brokers-0":
            raise KubeError("only dynamically provisioned pvc can be resized", 403, retriable=retriable)
        await patch(kind, namespace, name, *rest, **spec)

    monkeypatch.setattr(kube, "patch_metadata", not_the_first)
    for _ in range(2):
        seen = (await reconcile_claims(kube, grown(3), 3, started=True)).volumes  # type: ignore[arg-type]
        assert [asked(kube, ordinal) for ordinal in range(3)] == ["10Gi", "20Gi", "20Gi"]
        assert seen.refused.startswith("data-shop-brokers-0 stays at 10Gi and cannot grow to 20Gi")
        assert seen.refused.endswith("only dynamically provisioned pvc can be resized")
        assert seen.status.growing == (
            seen.refused,
            "data-shop-brokers-1 has 10Gi of 20Gi: the rest has been requested from Kubernetes",
            "data-shop-brokers-2 has 10Gi of 20Gi: the rest has been requested from Kubernetes",
        )


def test_a_stateful_set_keeps_the_template_of_its_claims() -> None:
    cluster = grown()
    [child] = [
        child
        for child in cluster_children(cluster, [])
        if child["kind"] == "StatefulSet" and child["metadata"]["name"] == "shop-brokers"
    ]
    kept = keep_template_size(child, NODE_SETS[Role.BROKER])
    assert template_size(child) == "20Gi"
    assert template_size(kept) == "10Gi"
    assert {**kept["spec"], "volumeClaimTemplates": []} == {**child["spec"], "volumeClaimTemplates": []}


def theirs(ordinal: int) -> Json:
    """A claim with the name of a node's, and without any sign that it is one."""
    found = claim(ordinal, None)
    return {**found, "metadata": {**found["metadata"], "labels": {"mine": "yes"}, "annotations": {}}}


@pytest.mark.parametrize("started", [True, False])
async def test_a_claim_of_somebody_else_is_named_and_left_alone(started: bool) -> None:
    going = parsed(shop(storage={"deleteClaims": True}))
    kube = MemoryKube(claim(0, cluster_id(going)), theirs(1))
    before = dict(kube.objects)
    with pytest.raises(ClaimsTakenError, match="data-shop-brokers-1 exist and do not belong"):
        await reconcile_claims(kube, going, 3, started=started)  # type: ignore[arg-type]
    await own_claims(kube, going)  # type: ignore[arg-type]
    assert (
        kube.take(PERSISTENT_VOLUME_CLAIM.kind, "data-shop-brokers-1")
        == before[PERSISTENT_VOLUME_CLAIM.kind, "default", "data-shop-brokers-1"]
    )
    # A claim that no node needs is ignored.
    claims = await reconcile_claims(kube, going, 1, started=started)  # type: ignore[arg-type]
    assert [(new.role, new.ordinal) for new in claims.make] == [(Role.CONTROLLER, 0)]


async def test_a_stateful_set_of_an_older_operator_deletes_no_claim_of_somebody_else() -> None:
    going = parsed(shop(storage={"deleteClaims": True}))
    policy = {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"}}
    kube = MemoryKube(
        theirs(0),
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "shop-brokers"}, "spec": policy},
    )
    node_sets = {Role.BROKER: kube.take("StatefulSet", "shop-brokers"), Role.CONTROLLER: None}
    with pytest.raises(ClaimsTakenError):
        await reconcile_claims(kube, going, 1, started=True, node_sets=node_sets)  # type: ignore[arg-type]
    assert kube.take("StatefulSet", "shop-brokers")["spec"] == {
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"}
    }


async def test_a_claim_that_is_handed_over_by_its_label_is_marked() -> None:
    of = parsed(shop(clusterId="A" * 22))
    handed = theirs(0)
    handed["metadata"]["labels"] = {CLUSTER_LABEL: "shop"}
    kube = MemoryKube(handed)
    await reconcile_claims(kube, of, 1, started=False)  # type: ignore[arg-type]
    meta = kube.take(PERSISTENT_VOLUME_CLAIM.kind, "data-shop-brokers-0")["metadata"]
    assert meta["annotations"] == {CLUSTER_ID: "A" * 22}


async def test_a_claim_that_has_lost_its_label_gets_it_back() -> None:
    of = parsed(shop())
    lost = claim(0, cluster_id(of))
    lost["metadata"]["labels"] = {}
    kube = MemoryKube(lost)
    claims = await reconcile_claims(kube, of, 1, started=True)  # type: ignore[arg-type]
    labels = kube.take(PERSISTENT_VOLUME_CLAIM.kind, "data-shop-brokers-0")["metadata"]["labels"]
    assert labels[CLUSTER_LABEL] == "shop"
    assert Role.BROKER not in {new.role for new in claims.make}


@pytest.mark.parametrize("deletes", [True, False])
async def test_a_claim_is_marked_from_its_birth(deletes: bool) -> None:
    of = parsed(shop(storage={"deleteClaims": deletes}))
    kube = MemoryKube()
    claims = await reconcile_claims(kube, of, 1, started=False)  # type: ignore[arg-type]
    await make_claims(kube, of, claims.make)  # type: ignore[arg-type]
    assert kube.names(PERSISTENT_VOLUME_CLAIM.kind) == ["data-shop-brokers-0", "data-shop-controllers-0"]
    meta = kube.take(PERSISTENT_VOLUME_CLAIM.kind, "data-shop-brokers-0")["metadata"]
    assert meta["labels"][CLUSTER_LABEL] == "shop"
    assert meta["annotations"] == {CLUSTER_ID: cluster_id(of)}
    assert owners(kube, 0) == (["of-the-shop"] if deletes else [])


async def test_a_claim_that_somebody_makes_in_the_meantime_is_not_mounted() -> None:
    of, kube = parsed(shop()), MemoryKube()
    claims = await reconcile_claims(kube, of, 1, started=False)  # type: ignore[arg-type]
    kube.put(theirs(0))
    with pytest.raises(KubeConflictError):
        await make_claims(kube, of, claims.make)  # type: ignore[arg-type]


async def test_a_claim_of_somebody_else_that_exhausts_the_quota_is_not_mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server asks its quotas before it looks for the name."""
    of, kube = parsed(shop()), MemoryKube()
    claims = await reconcile_claims(kube, of, 1, started=False)  # type: ignore[arg-type]

    async def refuse(*_: object) -> Json:
        kube.put(theirs(0))
        raise KubeError("exceeded quota: small", 403)

    monkeypatch.setattr(kube, "create", refuse)
    with pytest.raises(KubeConflictError, match="volume claim data-shop-brokers-0 exists by now"):
        await make_claims(kube, of, claims.make)  # type: ignore[arg-type]


async def test_a_terminating_claim_is_awaited_and_a_refused_one_is_left_to_the_stateful_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of, going = parsed(shop()), theirs(0)
    going["metadata"]["deletionTimestamp"] = MADE
    kube = MemoryKube(going)
    claims = await reconcile_claims(kube, of, 1, started=True)  # type: ignore[arg-type]
    assert [new.role for new in claims.make] == [Role.CONTROLLER]

    async def refuse(*_: object) -> Json:
        raise KubeError("exceeded quota: small", 403)

    monkeypatch.setattr(kube, "create", refuse)
    await make_claims(kube, of, claims.make)  # type: ignore[arg-type]


async def _reconcile(kube: MemoryKube, gone: Json) -> None:
    context = Context(kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
    context.mark = lambda queue, key: None
    departed = parsed(gone)
    context.departed["default", "shop"] = {departed.metadata.uid: departed}
    await ClusterReconciler(context).reconcile(("default", "shop"))
    assert not context.departed
    await context.aclose()

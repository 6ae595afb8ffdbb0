"""A cluster that keeps its claims stops being their owner, whatever else of it is refused or waits."""

from typing import Any

import pytest

from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.reconcilers.clusters import STARTING_RETRY, ClusterReconciler
from sluicegate_operator.kube.http.errors import KubeConflictError, KubeError
from sluicegate_operator.kube.http.kinds import Kind
from sluicegate_operator.settings import read_settings
from tests.support.fakes.kube.memory_kube import Json, MemoryKube
from tests.support.manifests.bad_manifests import cluster, listener

SHOP = ("default", "shop")
BORN = {"name": "shop", "uid": "of-shop", "creationTimestamp": "2026-01-01T00:00:00Z"}
OLDER = {"name": "older", "uid": "of-older", "creationTimestamp": "2025-01-01T00:00:00Z"}


def broker_nodes(replicas: int) -> Json:
    return {"replicas": replicas, "storage": {"size": "1Gi"}}


class RefusingClaims(MemoryKube):
    """Refuses to change the claim of broker 0, while it has a refusal."""

    refusal: KubeError | None = None

    async def patch_metadata(self, kind: Kind, namespace: str, name: str, *more: Any, **spec: Any) -> None:
        if name == "data-shop-brokers-0" and self.refusal is not None:
            raise self.refusal
        await super().patch_metadata(kind, namespace, name, *more, **spec)


def _claim_owners(kube: MemoryKube) -> dict[str, list[str]]:
    claims = {name: kube.take("PersistentVolumeClaim", name) for name in kube.names("PersistentVolumeClaim")}
    return {name: [one["uid"] for one in claim["metadata"]["ownerReferences"]] for name, claim in claims.items()}


@pytest.mark.parametrize(
    ("held", "reason"),
    [
        ("unreadable listener", "Unreadable"),
        ("claim of others", "ClaimsTaken"),
        ("landing place taken", "Refused"),
        ("paused", "Paused"),
    ],
)
@pytest.mark.parametrize("refusal", [None, KubeConflictError("written meanwhile"), KubeError("denied", 403)])
async def test_a_cluster_that_keeps_its_claims_releases_them_whatever_else_waits(
    held: str, reason: str, refusal: KubeError | None
) -> None:
    def shop(**spec: Any) -> Json:
        return cluster(**{"brokers": broker_nodes(1), **spec}) | {"metadata": BORN}

    kube = RefusingClaims(shop(storage={"deleteClaims": True}))
    settings = read_settings({"SLUICEGATE_SETTLE_SECONDS": "0"}, None, None, None)
    context = Context(kube, settings)  # type: ignore[arg-type]
    context.mark = lambda queue, key: None
    reconciler = ClusterReconciler(context)
    await reconciler.reconcile(SHOP)
    assert _claim_owners(kube) == {"data-shop-brokers-0": ["of-shop"], "data-shop-controllers-0": ["of-shop"]}
    changed: Json = {}
    if held == "unreadable listener":
        kube.put(listener(port="9096"))
    elif held == "claim of others":
        changed = {"brokers": broker_nodes(2)}
        strange = {"name": "data-shop-brokers-1", "creationTimestamp": "2020-01-01T00:00:00Z", "ownerReferences": []}
        spec = {"resources": {"requests": {"storage": "1Gi"}}}
        kube.put({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": strange, "spec": spec})
    elif held == "landing place taken":
        changed = {"audit": {"landing": {"uri": "s3://audit/x"}}}
        kube.put({**cluster(audit={"landing": {"uri": "s3://audit"}}), "metadata": OLDER})
    else:
        changed = {"paused": True}
    kube.put(shop(storage={"deleteClaims": False}, **changed))
    kube.refusal = refusal
    again = await reconciler.reconcile(SHOP)
    assert kube.condition("BrokerCluster", "shop")["reason"] == reason
    owners = _claim_owners(kube)
    assert owners["data-shop-controllers-0"] == []
    assert owners["data-shop-brokers-0"] == ([] if refusal is None else ["of-shop"])
    assert again == STARTING_RETRY or refusal is None or not refusal.retriable
    told = [event for event in kube.events("Refused") if "would still be deleted with it" in event["message"]]
    assert len(told) == (refusal is not None and not refusal.retriable)
    kube.refusal = None
    await reconciler.reconcile(SHOP)
    assert _claim_owners(kube)["data-shop-brokers-0"] == []
    await context.aclose()

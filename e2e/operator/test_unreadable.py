"""Objects of another version: the operator ignores unknown fields, and keeps limits of objects that it cannot read."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path

import pytest
import yaml

from e2e.cluster.waiting import wait_for
from e2e.world.shop import CLUSTER, CRDS, Json, Shop, condition_of, install_crds

QUOTA = "shop-external-rate"
LISTENER = "shop-external"
QUOTA_CRD = CRDS / "sluicegate.dev_connectionquotas.yaml"
LISTENER_CRD = CRDS / "sluicegate.dev_brokerlisteners.yaml"


@pytest.fixture
def own_crds(shop: Shop) -> Iterator[None]:
    """Restore the CRDs afterwards, and every object so that it satisfies them."""
    yield
    install_crds(shop.plane)


def spec_schema(crd: Json) -> Json:
    [version] = crd["spec"]["versions"]
    schema: Json = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return schema


@contextmanager
def changed(shop: Shop, path: Path) -> Iterator[Json]:
    """The schema of the spec, for the test to change as another version would."""
    crd = deepcopy(yaml.safe_load(path.read_text()))
    yield spec_schema(crd)
    # Other clients may have applied the CRDs before.
    shop.plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=yaml.safe_dump(crd))


def patch_until_taken(shop: Shop, kind: str, name: str, spec: str) -> None:
    """Patch until the API server accepts it: a changed CRD takes effect a moment later."""

    def patch() -> bool:
        shop.plane.kubectl("patch", kind, name, "--type=merge", "--patch", f'{{"spec": {spec}}}')
        found = shop.plane.get(kind, name)["spec"]
        return all(found.get(key) == value for key, value in yaml.safe_load(spec).items())

    wait_for(f"{kind} {name} takes {spec}", patch, timeout_s=30)


def await_unreadable(shop: Shop, kind: str, name: str) -> Json:
    def look() -> Json:
        document = shop.plane.get(kind, name)
        stalled = condition_of(document, "Stalled")
        assert stalled.get("reason") == "Unreadable", f"status {document.get('status')}"
        assert stalled["observedGeneration"] == document["metadata"]["generation"]
        return stalled

    return wait_for(f"{kind} {name} cannot be read", look, timeout_s=60)


def test_a_field_of_the_next_version_changes_nothing(shop: Shop, own_crds: None) -> None:
    for path in (QUOTA_CRD, LISTENER_CRD):
        with changed(shop, path) as schema:
            schema["properties"]["forecast"] = {"type": "string"}
    before = shop.fingerprint()
    patch_until_taken(shop, "connectionquota", QUOTA, '{"forecast": "storm"}')
    patch_until_taken(shop, "brokerlistener", LISTENER, '{"forecast": "storm"}')
    shop.await_enforced(QUOTA)
    shop.await_condition("brokerlistener", LISTENER, "Ready", "True")
    assert shop.external_rates() == [50, 50, 50]
    assert shop.fingerprint() == before


def test_unreadable_objects_are_stalled_and_keep_limits_ports_and_nodes(shop: Shop, own_crds: None) -> None:
    with changed(shop, QUOTA_CRD) as schema:
        schema["properties"]["maxConnectionCreationRate"]["minimum"] = 0
    with changed(shop, LISTENER_CRD) as schema:
        schema["properties"]["port"]["minimum"] = 1
    before = shop.fingerprint()
    patch_until_taken(shop, "connectionquota", QUOTA, '{"maxConnectionCreationRate": 0}')
    patch_until_taken(shop, "brokerlistener", LISTENER, '{"port": 94}')
    said = await_unreadable(shop, "connectionquota", QUOTA)
    assert "spec.maxConnectionCreationRate: must be at least 1" in said["message"]
    said = await_unreadable(shop, "brokerlistener", LISTENER)
    assert "spec.port: must be at least 1024" in said["message"]
    assert "BrokerListener shop-external cannot be read" in await_unreadable(shop, "brokercluster", CLUSTER)["message"]
    assert shop.external_rates() == [50, 50, 50]
    # Changes that are stricter continue; changes that would lift a limit wait.
    shop.plane.kubectl("delete", "connectionquota", "shop-noisy-neighbour")
    patch_until_taken(shop, "brokercluster", CLUSTER, '{"config": {"num.partitions": "5"}}')
    wait_for("the cluster's newest generation was looked at", lambda: await_unreadable(shop, "brokercluster", CLUSTER))
    # Restore the CRDs: they would refuse the object, but its status can still be written.
    install_crds(shop.plane)
    status = ("--subresource=status", "--type=merge", "--patch", '{"status": {"target": "by hand"}}')
    shop.plane.kubectl("patch", "connectionquota", QUOTA, *status)
    assert [shop.ip_rates(pod) for pod in shop.broker_pods()] == [{"127.0.1.7": 5.0}] * 3
    assert shop.external_rates() == [50, 50, 50]
    assert shop.fingerprint() == before
    warnings = [event for event in shop.events(QUOTA) if event["reason"] == "Unreadable"]
    assert [(event["type"], event["count"]) for event in warnings] == [("Warning", 1)]
    shop.settle()
    shop.await_condition("connectionquota", QUOTA, "Stalled", "False")
    shop.await_condition("brokerlistener", LISTENER, "Stalled", "False")

"""Observers whose code is not in the image: in a ConfigMap, which must be allowed, or in a wheel on a volume."""

from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from e2e.cluster.waiting import wait_for
from e2e.world.shop import NAMESPACE, READY_TIMEOUT_S, Json, Shop

CLUSTER, PLUGIN, CODE = "coded", "greeting", "greetings"
DELIVERED_TIMEOUT_S = 180.0
"""The kubelet is slow, and a broker that looked for the code too early retries after a minute."""
TEXT = """
from pathlib import Path

class Greeting:
    def configure(self, config):
        Path(config["path"]).write_text("{word}")

    def record_request(self, struct, client_address, principal, api_key, api_version, correlation_id):
        pass

    def record_response(self, struct, api_version, correlation_id):
        pass

    def close(self, timeout_s):
        pass
"""


def cluster(**spec: object) -> Json:
    brokers = {"replicas": 1, "storage": {"size": "1Gi"}}
    return document("BrokerCluster", CLUSTER, {"brokers": brokers, "resyncSeconds": 5, **spec})


def document(kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": "sluicegate.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def code(word: str) -> Json:
    data = {"greeting.py": TEXT.format(word=word)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CODE}, "data": data}


def plugin(path: Path, source: Json) -> Json:
    which = {"class": "greeting.Greeting", "source": source}
    return document("ObserverPlugin", PLUGIN, {"clusterRef": {"name": CLUSTER}, **which, "config": {"path": str(path)}})


@pytest.fixture
def coded(standing_shop: Shop) -> Iterator[Shop]:
    shop = standing_shop
    yield shop
    shop.delete("observerplugin", PLUGIN)
    shop.delete("configmap", CODE)
    shop.delete("brokercluster", CLUSTER)
    wait_for("no broker is left", lambda: not shop.broker_pods(CLUSTER, deleting=True), timeout_s=READY_TIMEOUT_S)
    # Claims outlive their cluster, and would block the next cluster of that name.
    shop.plane.kubectl("delete", "pvc", "-l", f"sluicegate.dev/cluster={CLUSTER}")


def test_code_of_a_config_map_runs_once_it_is_allowed_and_changes_without_a_restart(
    coded: Shop, tmp_path: Path
) -> None:
    greeting = tmp_path / "greeting"
    coded.apply(cluster(), code("hello"), plugin(greeting, {"configMap": {"name": CODE}}))
    refused = coded.await_condition("observerplugin", PLUGIN, "Stalled", "True")
    assert refused["reason"] == "CodeNotAllowed"
    assert "observers.allowConfigMapCode: true" in refused["message"]

    coded.apply(cluster(observers={"allowConfigMapCode": True}))
    coded.await_condition("observerplugin", PLUGIN, "Ready", "True", timeout_s=DELIVERED_TIMEOUT_S)
    assert greeting.read_text() == "hello"
    (before,) = coded.broker_pods(CLUSTER)

    coded.apply(code("good day"))
    wait_for(
        "the changed code runs",
        lambda: greeting.read_text() == "good day",
        timeout_s=DELIVERED_TIMEOUT_S,
    )
    coded.await_condition("observerplugin", PLUGIN, "Ready", "True", timeout_s=DELIVERED_TIMEOUT_S)
    (after,) = coded.broker_pods(CLUSTER)
    assert (after.uid, after.restarts) == (before.uid, before.restarts)
    assert coded.plane.get("observerplugin", PLUGIN)["status"]["delivery"] == "Live"


def test_a_wheel_on_a_volume_of_the_cluster_is_imported(coded: Shop, tmp_path: Path) -> None:
    greeting, wheel = tmp_path / "greeting", "greeting-1.0-py3-none-any.whl"
    claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Mi"}}}
    coded.apply(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "wheels"}, "spec": claim},
    )
    uid = coded.plane.get("persistentvolumeclaim", "wheels")["metadata"]["uid"]
    volume = coded.kubelet.claim_folder(NAMESPACE, "wheels", uid)
    volume.mkdir(parents=True)
    with ZipFile(volume / wheel, "w") as archive:
        archive.writestr("greeting.py", TEXT.format(word="from a wheel"))

    wheels = {"claimName": "wheels", "files": [wheel]}
    coded.apply(cluster(observers={"wheels": wheels}), plugin(greeting, {"wheel": {"file": wheel}}))

    coded.await_condition("observerplugin", PLUGIN, "Ready", "True", timeout_s=READY_TIMEOUT_S)
    assert greeting.read_text() == "from a wheel"
    coded.delete("persistentvolumeclaim", "wheels", "--wait=false")

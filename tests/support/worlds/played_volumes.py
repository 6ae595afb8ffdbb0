"""Volumes for the claims of one StorageClass in one namespace, as a storage driver would provide them.

Each claim is bound at once, and grows as soon as its request grows.
"""

from typing import Self

from tests.support.processes.kube_watch import KubeWatch
from tests.support.processes.process_kubelet.api import Access, ApiRefused, ApiUnavailable, Json, KubeApi


class PlayedVolumes:
    """Simulated volumes: the StorageClass and the watch, used with `with`.

    The StorageClass has the namespace's name.
    """

    def __init__(self, access: Access, namespace: str) -> None:
        self._api = KubeApi(access)
        self._namespace = namespace
        self._claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
        self._watch = KubeWatch(access, self._claims, self._heard)
        self._made: set[str] = set()

    def __enter__(self) -> Self:
        storage_class = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": self._namespace},
            "provisioner": "example.org/none",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowVolumeExpansion": True,
        }
        self._api.create("/apis/storage.k8s.io/v1/storageclasses", storage_class)
        self._watch.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.__exit__(None, None, None)
        for name in self._made:
            self._api.delete(f"/api/v1/persistentvolumes/{name}")
        self._api.delete(f"/apis/storage.k8s.io/v1/storageclasses/{self._namespace}")
        self._api.close()

    def _heard(self, event: str, claim: Json) -> None:
        if event == "DELETED" or claim["spec"].get("storageClassName") != self._namespace:
            return
        try:
            self._follow(claim)
        except (ApiRefused, ApiUnavailable):
            # The claim has changed meanwhile: another event follows.
            return

    def _follow(self, claim: Json) -> None:
        name, status = claim["metadata"]["name"], claim.get("status") or {}
        asked = claim["spec"]["resources"]["requests"]["storage"]
        if not claim["spec"].get("volumeName"):
            if f"{self._namespace}-{name}" not in self._made:
                self._make(claim, asked)
        elif status.get("phase") == "Bound" and status["capacity"]["storage"] != asked:
            self._api.patch(f"{self._claims}/{name}/status", {"status": {"capacity": {"storage": asked}}})

    def _make(self, claim: Json, size: str) -> None:
        meta = claim["metadata"]
        volume = f"{self._namespace}-{meta['name']}"
        document = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": {
                "capacity": {"storage": size},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": self._namespace,
                "claimRef": {"namespace": self._namespace, "name": meta["name"]},
                "hostPath": {"path": f"/volumes/{volume}"},
            },
        }
        self._api.create("/api/v1/persistentvolumes", document)
        self._made.add(volume)

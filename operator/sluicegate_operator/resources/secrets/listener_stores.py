"""The Secret with the certificates of a listener that brokers mount, and its volume in their pods.

Kafka reads the key and the certificate from one file, and cert-manager writes two. So the operator makes a Secret of
its own, after it has checked the certificates: a Secret of users that is wrong or gone never keeps a broker from
starting.
"""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sluicegate_operator.api.models.broker_listener import BrokerListener
from sluicegate_operator.resources.labels import labels
from sluicegate_operator.resources.owner import child_metadata

STORES_PATH = "/etc/sluicegate-listeners"
KEYSTORE, TRUSTSTORE = "keystore.pem", "truststore.pem"
API_TOKEN, API_CA = "api-token", "api-ca.crt"
API_TOKEN_LIFETIME_S = 3607


def store_name(listener: str) -> str:
    """Return the name of the Secret with a listener's files. `listener` is the BrokerListener's metadata.name."""
    return f"{listener}-listener-tls"


def store_secret(listener: BrokerListener, keystore: str, truststore: str) -> dict[str, Any]:
    values = {KEYSTORE: keystore} | ({TRUSTSTORE: truststore} if truststore else {})
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": child_metadata(
            listener, store_name(listener.name), labels(listener.spec.cluster_ref.name, "listener")
        ),
        "type": "Opaque",
        "data": {name: base64.b64encode(value.encode()).decode() for name, value in sorted(values.items())},
    }


@dataclass(frozen=True, slots=True, order=True)
class ListenerStore:
    """The files of one listener in each broker's pod.

    `secret` is empty without TLS. `reads_api_server`: the keys of service account tokens are read from the API server.
    `keys` are the keys of the Secret that become files; if empty, all keys do.
    """

    listener: str
    secret: str = ""
    reads_api_server: bool = False
    keys: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """Return the name of the listener's folder below STORES_PATH."""
        return self.listener.lower()

    @property
    def volume_name(self) -> str:
        """Return the name of the volume, which other listeners do not change.

        A listener's own name may be too long.
        """
        return f"listener-{hashlib.sha256(self.listener.encode()).hexdigest()[:10]}"


def store_volumes(stores: tuple[ListenerStore, ...]) -> list[dict[str, Any]]:
    return [{"name": store.volume_name, "projected": {"sources": _sources(store)}} for store in stores]


def store_mounts(stores: tuple[ListenerStore, ...]) -> list[dict[str, Any]]:
    return [
        {"name": store.volume_name, "mountPath": f"{STORES_PATH}/{store.folder}", "readOnly": True} for store in stores
    ]


def _sources(store: ListenerStore) -> list[Mapping[str, Any]]:
    sources: list[Mapping[str, Any]] = []
    if store.secret:
        items = {"items": [{"key": key, "path": key} for key in store.keys]} if store.keys else {}
        sources.append({"secret": {"name": store.secret, **items}})
    if store.reads_api_server:
        token = {"path": API_TOKEN, "expirationSeconds": API_TOKEN_LIFETIME_S}
        authority = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": API_CA}]}
        sources += [{"serviceAccountToken": token}, {"configMap": authority}]
    return sources

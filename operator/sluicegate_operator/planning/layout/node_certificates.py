"""TLS between the nodes of a bundled cluster with spec.clusterCa: keys, files, names and principals. Pure.

All nodes have one certificate, and check the certificates of others for the name of their Service. So the addresses of
pods, which change, are in no certificate (decision 61).
"""

from collections.abc import Iterable, Mapping

from sluicegate_operator.api.configs.config_keys import LISTENER_PREFIX
from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.resources.labels import node_set_name
from sluicegate_operator.resources.secrets.cluster_secrets import nodes_secret_name
from sluicegate_operator.resources.secrets.listener_stores import KEYSTORE, TRUSTSTORE, ListenerStore

AUTHORIZER, SUPER_USERS = "authorizer.class.name", "super.users"
SSL = "SSL"
_FOLDER_OF = "INTERNAL"
"""The listener whose folder has the files of INTERNAL and CONTROLLER: no BrokerListener may have this name."""
_LISTENERS = {"INTERNAL": "broker", "CONTROLLER": "controller"}
"""The role of the nodes that open a listener."""
_ORGANIZATION = "sluicegate.dev"


def node_principals(cluster: BrokerCluster) -> tuple[str, str]:
    """Return the principals of nodes and of the operator, as brokers see them."""
    return f"User:{_subject(cluster, 'nodes')}", f"User:{_subject(cluster, 'operator')}"


def subject_parts(cluster: BrokerCluster, who: str) -> tuple[str, str, str]:
    """Return CN, OU and O of the subject of a certificate. `who` is nodes or operator."""
    return f"{cluster.name}-{who}", cluster.namespace, _ORGANIZATION


def _subject(cluster: BrokerCluster, who: str) -> str:
    """Return the subject as RFC 2253 writes it. No part needs escaping."""
    return ",".join(f"{kind}={part}" for kind, part in zip(("CN", "OU", "O"), subject_parts(cluster, who), strict=True))


def server_name(cluster: BrokerCluster, role: str) -> str:
    """Return the name for which clients check a node's certificate: that of the nodes' Service."""
    return f"{node_set_name(cluster.name, role)}.{cluster.namespace}.svc"


def certificate_names(cluster: BrokerCluster) -> tuple[str, ...]:
    """Return the names in the certificate of nodes: their Services, and the pods' names below these."""
    services = [server_name(cluster, role) for role in _LISTENERS.values()]
    return tuple(name for service in services for name in (service, f"*.{service}"))


def nodes_store(cluster: BrokerCluster) -> ListenerStore | None:
    """Return the files that each node needs; None without spec.clusterCa."""
    if cluster.spec.cluster_ca is None:
        return None
    return ListenerStore(_FOLDER_OF, nodes_secret_name(cluster.name), keys=(KEYSTORE, TRUSTSTORE))


def node_security(cluster: BrokerCluster, listeners: Iterable[str]) -> dict[str, str]:
    """Return the TLS configuration of these listeners of nodes, without the keys that name files."""
    if cluster.spec.cluster_ca is None:
        return {}
    found: dict[str, str] = {}
    for listener in listeners:
        own = {
            "ssl.keystore.type": "PEM",
            "ssl.truststore.type": "PEM",
            "ssl.client.auth": "required",
            "sluicegate.tls.server.name": server_name(cluster, _LISTENERS[listener]),
        }
        found |= {f"{_prefix(listener)}{key}": value for key, value in own.items()}
    return found


def node_files(cluster: BrokerCluster, listeners: Iterable[str]) -> dict[str, str]:
    """Return the configuration keys of these listeners that name files.

    The paths are below the folder that nodes mount.
    """
    store = nodes_store(cluster)
    if store is None:
        return {}
    files = {"ssl.keystore.location": KEYSTORE, "ssl.truststore.location": TRUSTSTORE}
    return {
        f"{_prefix(listener)}{key}": f"{store.folder}/{file}" for listener in listeners for key, file in files.items()
    }


def with_node_principals(cluster: BrokerCluster, config: Mapping[str, str]) -> dict[str, str]:
    """Return the configuration with nodes and operator as super users, if it has an authorizer."""
    if cluster.spec.cluster_ca is None or not config.get(AUTHORIZER):
        return dict(config)
    given = [one for one in config.get(SUPER_USERS, "").split(";") if one.strip()]
    return {**config, SUPER_USERS: ";".join([*given, *node_principals(cluster)])}


def _prefix(listener: str) -> str:
    return f"{LISTENER_PREFIX}{listener.lower()}."

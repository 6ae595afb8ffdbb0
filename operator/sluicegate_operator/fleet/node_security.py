"""How the operator connects to nodes of a bundled cluster: with its certificate of the cluster's own authority.

The certificate is in a Secret of the operator, which is read again after FRESH_S. This is soft state.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.kafka_admin.security.client_security import PLAINTEXT, ClientSecurity, TlsSettings
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.planning.layout.cluster_layout import Role
from sluicegate_operator.planning.layout.node_certificates import server_name
from sluicegate_operator.resources.secrets.cluster_secrets import OPERATOR_CERTIFICATE, OPERATOR_KEY, nodes_secret_name
from sluicegate_operator.resources.secrets.listener_stores import TRUSTSTORE

FRESH_S = 10.0
"""Seconds for which the content of the Secret is used before the next read."""

ReadSecret = Callable[[str, str], Awaitable[Mapping[str, bytes] | None]]


class NoNodeSecurityError(Exception):
    """Error if there is no certificate for connections to nodes. The message is a sentence."""


@dataclass(slots=True)
class _Known:
    uid: str = ""
    at_s: float = float("-inf")
    security: ClientSecurity = PLAINTEXT
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)


class NodeSecurity:
    """The security settings for connections to nodes, by cluster. Belongs to one event loop."""

    def __init__(self, read_secret: ReadSecret) -> None:
        self._read_secret = read_secret
        self._known: dict[tuple[str, str], _Known] = {}

    async def of(self, cluster: BrokerCluster) -> ClientSecurity:
        """Return the security settings for the nodes of a bundled cluster. Raises NoNodeSecurityError."""
        if cluster.spec.cluster_ca is None:
            return PLAINTEXT
        known = self._known.setdefault((cluster.namespace, cluster.name), _Known())
        async with known.reading:
            now_s = asyncio.get_running_loop().time()
            if known.uid != cluster.metadata.uid or now_s - known.at_s > FRESH_S:
                await self._read(known, cluster)
        return known.security

    async def _read(self, known: _Known, cluster: BrokerCluster) -> None:
        name = nodes_secret_name(cluster.name)
        try:
            data = await self._read_secret(cluster.namespace, name)
        except KubeError as error:
            raise NoNodeSecurityError(f"Secret {name} cannot be read: {error}") from None
        if data is None:
            raise NoNodeSecurityError(f"Secret {name} does not exist yet")
        self.note(cluster, data)

    def note(self, cluster: BrokerCluster, data: Mapping[str, bytes]) -> None:
        """Use these certificates for connections to the cluster's nodes from now on. Raises NoNodeSecurityError."""
        known = self._known.setdefault((cluster.namespace, cluster.name), _Known())
        known.security = security_of(cluster, data)
        known.uid, known.at_s = cluster.metadata.uid, asyncio.get_running_loop().time()

    def forget(self, key: tuple[str, str]) -> None:
        self._known.pop(key, None)


def security_of(cluster: BrokerCluster, data: Mapping[str, bytes]) -> ClientSecurity:
    """Return the security settings in the data of the Secret of nodes. Raises NoNodeSecurityError."""
    return security_in(data, nodes_secret_name(cluster.name), server_name(cluster, Role.BROKER))


def security_in(data: Mapping[str, bytes], secret: str, name: str) -> ClientSecurity:
    """Return the security settings in a Secret's data. Raises NoNodeSecurityError.

    `name` is the name in the nodes' certificate.
    """
    try:
        authorities, certificate, key = (
            data[part].decode("ascii") for part in (TRUSTSTORE, OPERATOR_CERTIFICATE, OPERATOR_KEY)
        )
    except (KeyError, UnicodeDecodeError):
        raise NoNodeSecurityError(f"Secret {secret} lacks a key, or one of them is not PEM") from None
    return ClientSecurity(TlsSettings(authorities, certificate, key, name))

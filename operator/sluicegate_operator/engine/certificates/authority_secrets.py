"""The authority of a cluster's own certificates: made by the operator, or taken from a Secret of the user."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.parts.cluster_ca import FORCE_RENEW, ClusterCa
from sluicegate_operator.engine.context.context import SecretStore, StoredSecret
from sluicegate_operator.kube.certificates.authorities import (
    AuthorityCertificate,
    authority_certificate,
    certificates_in,
    check_key,
    digest,
)
from sluicegate_operator.kube.certificates.cluster_orders import CertificateOrder, PemPair
from sluicegate_operator.kube.certificates.tls_pair import CertificateError
from sluicegate_operator.kube.http.errors import KubeError, NameTakenError
from sluicegate_operator.planning.status.conditions import NAME_TAKEN
from sluicegate_operator.resources.secrets.cluster_secrets import (
    AUTHORITIES,
    AUTHORITY_CERTIFICATE,
    AUTHORITY_KEY,
    authority_secret_name,
    cluster_secret,
)

MISSING, INVALID, UNREADABLE = "SecretMissing", "CertificateInvalid", "SecretUnreadable"

Make = Callable[[CertificateOrder], Awaitable[Sequence[PemPair]]]


class UnusableError(Exception):
    """Error for a Secret of certificates that prevents the next step.

    The message is a sentence for users, `reason` that of a condition.
    """

    def __init__(self, reason: str, problem: str) -> None:
        super().__init__(problem)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class AuthorityFound:
    """A certificate authority with its key.

    `renewal` is the value of the annotation for which it was made. `trusted` are the certificates, by digest, that
    nodes may trust by its Secret.
    """

    certificate: AuthorityCertificate
    key: str = field(repr=False)
    trusted: Mapping[str, str] = field(default_factory=dict)
    renewal: str = ""


def words(error: KubeError, secret: str) -> UnusableError | KubeError:
    """Return a final refusal of the API server as a sentence about a Secret.

    An error that may pass is returned unchanged.
    """
    if error.retriable:
        return error
    if isinstance(error, NameTakenError):
        return UnusableError(NAME_TAKEN, str(error))
    if error.status == 403:
        problem = (
            f"Secret {secret}, which spec.clusterCa needs, cannot be read or written, because the operator has no right"
            " to Secrets: install the chart with rbac.secrets=true"
        )
        return UnusableError(UNREADABLE, problem)
    return UnusableError(UNREADABLE, f"Secret {secret}, which spec.clusterCa needs, cannot be read or written: {error}")


async def own_secret(secrets: SecretStore, cluster: BrokerCluster, name: str) -> StoredSecret | None:
    """Return a Secret that the operator has made for this cluster; None without it. Raises UnusableError."""
    try:
        found = await secrets.find_secret(cluster_secret(cluster, name, {}, ""))
    except KubeError as error:
        raise words(error, name) from None
    if found is not None and not found.owner:
        problem = (
            f"Secret {name} exists, and the operator has not made it for BrokerCluster {cluster.name}: delete it, or"
            " give the cluster another name"
        )
        raise UnusableError(NAME_TAKEN, problem)
    return found if found is not None and found.owner == cluster.metadata.uid else None


class AuthoritySecrets:
    """The Secrets of clusters' authorities.

    It reads authorities, and makes those of clusters without one of the user.
    """

    def __init__(self, secrets: SecretStore, make: Make) -> None:
        self._secrets = secrets
        self._make = make

    async def find(self, cluster: BrokerCluster, ca: ClusterCa) -> AuthorityFound | None:
        """Return the authority that issues certificates from now on; None if the operator must make it.

        Raises UnusableError.
        """
        if ca.secret_name is not None:
            return await self._of_user(cluster, ca.secret_name)
        found = await own_secret(self._secrets, cluster, authority_secret_name(cluster.name))
        if found is None:
            return None
        try:
            return await asyncio.to_thread(_parsed, found.data, found.annotations.get(FORCE_RENEW, ""))
        except CertificateError:
            # Another client has changed it: the certificates that nodes have stay until the next one is trusted.
            return None

    async def _of_user(self, cluster: BrokerCluster, name: str) -> AuthorityFound:
        try:
            data = await self._secrets.read_secret(cluster.namespace, name)
        except KubeError as error:
            raise words(error, name) from None
        if data is None:
            problem = f"Secret {name}, which clusterCa.secretName names, does not exist: create it with your authority"
            raise UnusableError(MISSING, problem)
        try:
            found = await asyncio.to_thread(_parsed, data, "")
        except CertificateError as error:
            problem = f"Secret {name}, which clusterCa.secretName names, cannot be used: {error}"
            raise UnusableError(INVALID, problem) from None
        return replace(found, trusted={})

    async def renew(self, cluster: BrokerCluster, ca: ClusterCa, renewal: str) -> AuthorityFound:
        """Make an authority, and store it in place of the previous one. Raises UnusableError and CertificateError."""
        before = await self.find(cluster, ca)
        # Each authority has a name of its own, so that OpenSSL tells the old one from the new one.
        [pair] = await self._make(
            CertificateOrder(float(ca.validity_days), f"{cluster.name}-ca-{datetime.now(UTC):%Y%m%d%H%M%S}")
        )
        made = authority_certificate(pair.certificate)
        trusted = {**(before.trusted if before is not None else {}), made.digest: made.pem}
        found = AuthorityFound(made, pair.key, trusted, renewal)
        await self._store(cluster, found)
        return found

    async def keep_trusted(
        self, cluster: BrokerCluster, ca: ClusterCa, authority: AuthorityFound, trusted: Collection[str]
    ) -> None:
        """Forget the authorities that nodes no longer trust. Raises UnusableError."""
        left = {one: pem for one, pem in authority.trusted.items() if one in trusted}
        if ca.secret_name is None and left != authority.trusted:
            await self._store(cluster, replace(authority, trusted=left))

    async def _store(self, cluster: BrokerCluster, authority: AuthorityFound) -> None:
        name = authority_secret_name(cluster.name)
        data = {
            AUTHORITY_CERTIFICATE: authority.certificate.pem,
            AUTHORITY_KEY: authority.key,
            AUTHORITIES: "".join(pem for _, pem in sorted(authority.trusted.items())),
        }
        try:
            await self._secrets.apply_secret(cluster_secret(cluster, name, data, authority.renewal))
        except KubeError as error:
            raise words(error, name) from None


def _parsed(data: Mapping[str, bytes], renewal: str) -> AuthorityFound:
    """Return the authority in the data of a Secret. Raises CertificateError."""
    text = {key: data.get(key, b"").decode("ascii", "replace") for key in (AUTHORITY_CERTIFICATE, AUTHORITY_KEY)}
    for key, value in text.items():
        if not value:
            raise CertificateError(
                f"it has no key {key}: add it, as cert-manager does for a Certificate with isCA true"
            )
    certificate = authority_certificate(text[AUTHORITY_CERTIFICATE])
    check_key(certificate.pem, text[AUTHORITY_KEY])
    bundle = certificates_in(data.get(AUTHORITIES, b"").decode("ascii", "replace"))
    trusted = {digest(pem): pem for pem in bundle} | {certificate.digest: certificate.pem}
    return AuthorityFound(certificate, text[AUTHORITY_KEY], trusted, renewal)

"""The content of the Secret of a cluster's nodes. No I/O but for files in a private folder."""

from collections.abc import Mapping
from dataclasses import dataclass

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.parts.cluster_ca import FORCE_RENEW
from sluicegate_operator.engine.context.context import StoredSecret
from sluicegate_operator.kube.certificates.authorities import (
    AuthorityCertificate,
    Issued,
    authority_certificate,
    certificates_in,
    digest,
    issued_by,
)
from sluicegate_operator.kube.certificates.tls_pair import CertificateError, TlsPair
from sluicegate_operator.planning.certificates.renewal import StoredCertificate
from sluicegate_operator.planning.layout.cluster_layout import Role
from sluicegate_operator.planning.layout.node_certificates import certificate_names, server_name, subject_parts
from sluicegate_operator.resources.secrets.cluster_secrets import OPERATOR_CERTIFICATE, OPERATOR_KEY
from sluicegate_operator.resources.secrets.listener_stores import KEYSTORE, TRUSTSTORE


@dataclass(frozen=True, slots=True)
class NodesSecret:
    """The stored Secret of nodes' certificates.

    It has the certificate, and the authorities that nodes trust, by digest.
    """

    stored: StoredSecret
    current: StoredCertificate
    trusted: Mapping[str, str]


def nodes_secret(cluster: BrokerCluster, stored: StoredSecret) -> NodesSecret | None:
    """Return the parsed Secret of nodes' certificates.

    None if its certificate is missing, damaged, or of no trusted authority.
    """
    try:
        text = {
            key: stored.data[key].decode("ascii") for key in (KEYSTORE, TRUSTSTORE, OPERATOR_CERTIFICATE, OPERATOR_KEY)
        }
        authorities = [authority_certificate(pem) for pem in certificates_in(text[TRUSTSTORE])]
        certificate = "".join(certificates_in(text[KEYSTORE]))
        current = _current(cluster, authorities, certificate, text[KEYSTORE], stored.annotations.get(FORCE_RENEW, ""))
    except (KeyError, UnicodeDecodeError, CertificateError):
        return None
    return None if current is None else NodesSecret(stored, current, {one.digest: one.pem for one in authorities})


def _current(
    cluster: BrokerCluster, authorities: list[AuthorityCertificate], certificate: str, key: str, renewal: str
) -> StoredCertificate | None:
    """Return the certificate in the Secret, with its end and its issuer; None if no trusted authority has issued it."""
    pair = TlsPair(certificate.encode(), key.encode())
    name = server_name(cluster, Role.BROKER.value)
    # An authority that was renewed with the same key has issued it, too: the newer one counts.
    for authority in sorted(authorities, key=lambda one: -one.ends_s):
        issued = issued_by(authority, pair, name)
        if issued is not None:
            trusted = frozenset(one.digest for one in authorities)
            fits = _fits(cluster, issued)
            return StoredCertificate(digest(certificate), issued.ends_s, authority.digest, trusted, renewal, fits)
    return None


def _fits(cluster: BrokerCluster, issued: Issued) -> bool:
    common, unit, organization = subject_parts(cluster, "nodes")
    return issued.names >= set(certificate_names(cluster)) and issued.subject == (organization, unit, common)

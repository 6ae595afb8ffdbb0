"""Keep a cluster's own certificates: make them, and renew them so that no node restarts and none is refused.

`planning.certificates.renewal` decides. This is the shell: it reads and writes two Secrets, and asks the nodes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.parts.cluster_ca import FORCE_RENEW, ClusterCa
from sluicegate_operator.engine.certificates.authority_secrets import (
    INVALID,
    AuthorityFound,
    AuthoritySecrets,
    Make,
    UnusableError,
    own_secret,
    words,
)
from sluicegate_operator.engine.certificates.nodes_secret import NodesSecret, nodes_secret
from sluicegate_operator.engine.context.context import SecretStore
from sluicegate_operator.engine.context.snapshot import ClusterKey
from sluicegate_operator.fleet.node_security import NodeSecurity
from sluicegate_operator.kube.certificates import cluster_orders
from sluicegate_operator.kube.certificates.cluster_orders import CertificateOrder, Leaf, PemPair
from sluicegate_operator.kube.certificates.tls_pair import CertificateError
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.planning.certificates.cluster_ca_status import CertificatesSeen
from sluicegate_operator.planning.certificates.renewal import (
    Authority,
    MakeAuthority,
    NodeInForce,
    Nothing,
    NotYet,
    Step,
    Terms,
    Write,
    is_urgent,
    needs_nodes,
    next_step,
    wanted_step,
)
from sluicegate_operator.planning.layout.node_certificates import certificate_names, subject_parts
from sluicegate_operator.resources.secrets.cluster_secrets import (
    OPERATOR_CERTIFICATE,
    OPERATOR_KEY,
    cluster_secret,
    nodes_secret_name,
)
from sluicegate_operator.resources.secrets.listener_stores import KEYSTORE, TRUSTSTORE

FRESH_S = 10.0
"""Seconds for which settled certificates are not read again."""
DAY_S = 86_400.0
_STEPS_MAX = 3
"""Most steps of one call: an authority, the trust in it, and the check that follows."""

AskNodes = Callable[[], Awaitable[Sequence[NodeInForce]]]


def wall_s() -> float:
    return datetime.now(UTC).timestamp()


@dataclass(slots=True)
class _Known:
    """Soft state of a cluster. `version` of the nodes' Secret was first seen at `since_s`.

    `seen` was found at `at_s`, for the objects that `asked` names.
    """

    version: str = ""
    since_s: float = 0.0
    at_s: float = float("-inf")
    asked: tuple[object, ...] = ()
    seen: CertificatesSeen = field(default_factory=CertificatesSeen)


@dataclass(slots=True)
class _Work:
    """Findings of one call so far."""

    cluster: BrokerCluster
    ca: ClusterCa
    authority: AuthorityFound | None = None
    found: NodesSecret | None = None

    @property
    def renewal(self) -> str:
        return _renewal(self.cluster)

    @property
    def terms(self) -> Terms:
        return Terms(
            validity_s=self.ca.validity_days * DAY_S,
            renewal_s=self.ca.renewal_days * DAY_S,
            generated=self.ca.generate_certificate_authority,
            renewal=self.renewal,
            authority_made_for=self.authority.renewal if self.authority is not None else "",
        )

    def step(self, now_s: float) -> Step:
        authority = None
        if self.authority is not None:
            authority = Authority(self.authority.certificate.digest, self.authority.certificate.ends_s)
        return wanted_step(now_s, authority, None if self.found is None else self.found.current, self.terms)

    def seen(self, now_s: float) -> CertificatesSeen:
        if self.found is None:
            return CertificatesSeen()
        current = self.found.current
        return CertificatesSeen(
            usable=True,
            authority_ends_s=None if self.authority is None else self.authority.certificate.ends_s,
            certificate_ends_s=current.ends_s,
            ending=is_urgent(now_s, current, self.terms),
        )


class ClusterCertificates:
    """The certificates of clusters with spec.clusterCa. Its memory is soft state."""

    def __init__(
        self,
        secrets: SecretStore,
        security: NodeSecurity,
        make: Make = cluster_orders.make,
        now_s: Callable[[], float] = wall_s,
    ) -> None:
        self._secrets = secrets
        self._security = security
        self._make = make
        self._now_s = now_s
        self._authorities = AuthoritySecrets(secrets, make)
        self._known: dict[ClusterKey, _Known] = {}

    def forget(self, key: ClusterKey) -> None:
        self._known.pop(key, None)
        self._security.forget(key)

    async def keep(self, cluster: BrokerCluster, ask: AskNodes) -> CertificatesSeen | None:
        """Take the next steps of a cluster's certificates; return their state, None without spec.clusterCa.

        `ask` returns the nodes' reports.
        """
        if (ca := cluster.spec.cluster_ca) is None:
            return None
        known = self._known.setdefault((cluster.namespace, cluster.name), _Known())
        asked = (cluster.metadata.uid, cluster.spec_version, _renewal(cluster))
        now_s = asyncio.get_running_loop().time()
        if known.asked == asked and known.seen.settled and now_s - known.at_s < FRESH_S:
            return known.seen
        known.seen = await self._kept(_Work(cluster, ca), known, ask)
        known.asked, known.at_s = asked, now_s
        return known.seen

    async def _kept(self, work: _Work, known: _Known, ask: AskNodes) -> CertificatesSeen:
        try:
            work.found = await self._read(work.cluster, known)
            work.authority = await self._authorities.find(work.cluster, work.ca)
            for _ in range(_STEPS_MAX):
                step = work.step(self._now_s())
                if isinstance(step, Nothing):
                    return work.seen(self._now_s())
                waits = await self._take(step, work, known, ask)
                if waits is not None:
                    return replace(work.seen(self._now_s()), under_way=True, waiting=waits.nodes)
        except UnusableError as error:
            return replace(work.seen(self._now_s()), problem=str(error), reason=error.reason)
        except CertificateError as error:
            return replace(work.seen(self._now_s()), problem=str(error), reason=INVALID)
        return replace(work.seen(self._now_s()), under_way=True)

    async def _take(self, step: MakeAuthority | Write, work: _Work, known: _Known, ask: AskNodes) -> NotYet | None:
        """Take the step, or return what it waits for."""
        if isinstance(step, MakeAuthority):
            work.authority = await self._authorities.renew(work.cluster, work.ca, work.renewal)
            return None
        if work.found is not None:
            current = work.found.current
            nodes = await ask() if needs_nodes(step, current) else ()
            decided = next_step(self._now_s(), step, current, known.since_s, nodes, work.terms)
            if isinstance(decided, NotYet):
                return decided
        work.found = await self._write(step, work)
        self._note(known, work.found)
        return None

    def _note(self, known: _Known, found: NodesSecret) -> None:
        if known.version != found.stored.version:
            known.version, known.since_s = found.stored.version, self._now_s()

    async def _read(self, cluster: BrokerCluster, known: _Known) -> NodesSecret | None:
        """Return the Secret of nodes; None if a new one must be written."""
        stored = await own_secret(self._secrets, cluster, nodes_secret_name(cluster.name))
        found = None if stored is None else await asyncio.to_thread(nodes_secret, cluster, stored)
        if found is not None:
            self._note(known, found)
            self._security.note(cluster, found.stored.data)
        return found

    async def _write(self, step: Write, work: _Work) -> NodesSecret:
        """Write the next version of the Secret of nodes, and use it for the operator's own connections at once."""
        cluster, authority, found = work.cluster, work.authority, work.found
        assert authority is not None, "planned with it"
        known = {**authority.trusted, **(found.trusted if found is not None else {})}
        known[authority.certificate.digest] = authority.certificate.pem
        # Without this Secret, that of the authority names those that nodes may still trust.
        trusted = step.trusted if found is not None else step.trusted | authority.trusted.keys()
        data = {TRUSTSTORE: "".join(known[one] for one in sorted(trusted))}
        renewal = found.current.renewal if found is not None else ""
        if found is None or step.issue:
            data |= await self._issued(cluster, work.ca, authority)
            renewal = work.renewal or renewal
        else:
            data |= {key: found.stored.data[key].decode() for key in (KEYSTORE, OPERATOR_CERTIFICATE, OPERATOR_KEY)}
        name = nodes_secret_name(cluster.name)
        try:
            stored = await self._secrets.apply_secret(cluster_secret(cluster, name, data, renewal))
        except KubeError as error:
            raise words(error, name) from None
        written = await asyncio.to_thread(nodes_secret, cluster, stored)
        if written is None:
            raise CertificateError(f"Secret {name} has other content than the operator has written: do not change it")
        self._security.note(cluster, stored.data)
        await self._authorities.keep_trusted(cluster, work.ca, authority, written.current.trusted)
        return written

    async def _issued(self, cluster: BrokerCluster, ca: ClusterCa, authority: AuthorityFound) -> dict[str, str]:
        pair = PemPair(authority.certificate.pem, authority.key)
        leaves = (
            Leaf(subject_parts(cluster, "nodes"), certificate_names(cluster)),
            Leaf(subject_parts(cluster, "operator")),
        )
        nodes, operator = await self._make(CertificateOrder(float(ca.validity_days), authority=pair, leaves=leaves))
        return {
            KEYSTORE: nodes.key + nodes.certificate,
            OPERATOR_CERTIFICATE: operator.certificate,
            OPERATOR_KEY: operator.key,
        }


def _renewal(cluster: BrokerCluster) -> str:
    return (cluster.metadata.annotations or {}).get(FORCE_RENEW, "")

"""Reads a Kubernetes cluster for the checks. A read that is refused becomes a skipped result with the reason."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sluicegate_operator.api.schema.metadata import API_VERSION
from sluicegate_operator.cli.asking.brokers_asked import NobodyToAskError
from sluicegate_operator.cli.asking.kubernetes_asked import Place
from sluicegate_operator.cli.doctor.checks.api_server import ServerSeen, clock_result, server_time, version_result
from sluicegate_operator.cli.doctor.checks.catalogue import API_SERVER, OPERATOR_RIGHTS
from sluicegate_operator.cli.doctor.checks.crds import crd_results, wanted_crds
from sluicegate_operator.cli.doctor.checks.operator_runs import (
    OperatorSeen,
    deployment_results,
    lease_results,
    of_namespace,
    operator_in,
)
from sluicegate_operator.cli.doctor.checks.results import CheckResult, Unread
from sluicegate_operator.cli.doctor.checks.rights import (
    operator_rights,
    operator_rights_results,
    user_rights,
    user_rights_results,
)
from sluicegate_operator.cli.doctor.reading.namespace import namespace_results
from sluicegate_operator.cli.doctor.reading.reads import CRD, DEPLOYMENT, DoctorReads
from sluicegate_operator.cli.fleets.fleet_view import ShownCluster
from sluicegate_operator.cli.fleets.kubernetes_view import KubernetesView
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import LEASE, NAMESPACE, Kind
from sluicegate_operator.planning.registrations.operator_lease import DEFAULT_NAME
from sluicegate_operator.resources.labels import MANAGER

Json = dict[str, Any]
INSTALLED_IN = "sluicegate-system"
"""The namespace of deploy/ and of the chart's documentation."""


async def kubernetes_results(place: Place, cluster: str | None, release: str | None) -> list[CheckResult]:
    """Return the results about a namespace of Kubernetes, and about the operator that watches it.

    `cluster` names one BrokerCluster; None means all. Raises NobodyToAskError if it or the namespace does not exist.
    """
    try:
        with place.client() as kube:
            return await KubernetesDoctor(DoctorReads(kube), place.namespace, cluster, release).results()
    except KubeError as error:
        return [API_SERVER.problem(str(error))]


class KubernetesDoctor:
    """The checks of one namespace of Kubernetes. `release` is that of this command."""

    def __init__(self, reads: DoctorReads, namespace: str, cluster: str | None, release: str | None) -> None:
        self._reads = reads
        self._namespace = namespace
        self._cluster = cluster
        self._release = release

    async def results(self) -> list[CheckResult]:
        """Return all results; only that of the API server if it does not answer. Raises NobodyToAskError."""
        server = await self._reads.read(self._server)
        if isinstance(server, Unread):
            return [API_SERVER.problem(server.why)]
        clusters = await self._clusters()
        operators, leases = await asyncio.gather(self._operators(), self._leases())
        found = None if isinstance(operators, Unread) else of_namespace(operators, self._namespace)
        parts = await asyncio.gather(
            self._crds(),
            self._user_rights(),
            self._operator_rights(found),
            namespace_results(self._reads, self._namespace, self._cluster, clusters, found, self._release),
        )
        return [
            version_result(server),
            clock_result(server),
            *lease_results(leases, server_time(server)),
            *deployment_results(operators, self._namespace, self._release),
            *(result for part in parts for result in part),
        ]

    async def _server(self) -> ServerSeen:
        asked = datetime.now(UTC)
        version, date = await self._reads.kube.server.dated("/version")
        return ServerSeen(version, date, asked, datetime.now(UTC))

    async def _clusters(self) -> list[ShownCluster] | Unread:
        """Return the clusters as `status` shows them; none if the namespace has no BrokerCluster."""
        view = KubernetesView(self._reads.kube, self._namespace, self._cluster)
        try:
            return await view.read_clusters()
        except KubeError as error:
            return Unread(str(error))
        except NobodyToAskError:
            if await self._reads.get(NAMESPACE, None, self._namespace) is None:
                raise NobodyToAskError(
                    f"namespace {self._namespace} does not exist; set the namespace with -n NAMESPACE"
                ) from None
            if self._cluster is not None:
                raise
            return []

    async def _crds(self) -> list[CheckResult]:
        found = await self._reads.get_all(CRD, list(wanted_crds()))
        document = await self._reads.read(lambda: self._reads.kube.read(f"/apis/{API_VERSION}"))
        served = (
            document
            if isinstance(document, Unread)
            else frozenset(one["name"] for one in (document or {}).get("resources") or ())
        )
        return list(crd_results(found, served, self._release or "of this command"))

    async def _user_rights(self) -> list[CheckResult]:
        needs = user_rights(self._namespace)
        rights = [right for ones in needs.values() for right in ones]
        return list(user_rights_results(needs, await self._reads.granted(rights)))

    async def _operators(self) -> list[OperatorSeen] | Unread:
        found = await self._of_operators(DEPLOYMENT, f"app.kubernetes.io/name={MANAGER}", "")
        return found if isinstance(found, Unread) else [operator_in(one) for one in found]

    async def _leases(self) -> Sequence[Json] | Unread:
        return await self._of_operators(LEASE, "", f"metadata.name={DEFAULT_NAME}")

    async def _of_operators(self, kind: Kind, labels: str, fields: str) -> Sequence[Json] | Unread:
        """Return objects of operators in all namespaces; in two namespaces if the user may not list those of all."""
        found = await self._reads.list(kind, None, labels, fields)
        if not isinstance(found, Unread):
            return found
        near = [await self._reads.list(kind, one, labels, fields) for one in {self._namespace, INSTALLED_IN}]
        return [one for ones in near if not isinstance(ones, Unread) for one in ones] or found

    async def _operator_rights(self, operator: OperatorSeen | None) -> list[CheckResult]:
        if operator is None:
            return [
                OPERATOR_RIGHTS.skipped("the operator's service account is unknown, because no Deployment was found")
            ]
        rights = operator_rights(operator.namespace, operator.watched, self._namespace)
        answers: Mapping[Any, Any] = await self._reads.granted(rights[:1], operator.user)
        if not any(isinstance(answer, Unread) for answer in answers.values()):
            answers = {**answers, **await self._reads.granted(rights[1:], operator.user)}
        return list(operator_rights_results(operator.user, answers))

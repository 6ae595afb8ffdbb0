"""The source of looks for `sluicegate up` and for a Kubernetes namespace.

The clusters come from the same views as those of `sluicegate status`. Groups and partitions come from Kafka's admin
protocol; in Kubernetes, without a bootstrap server, groups come from the brokers' metrics.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

from sluicegate_operator.cli.asking.bootstrap import bootstrap_addresses, security_here
from sluicegate_operator.cli.asking.brokers_asked import NobodyToAskError
from sluicegate_operator.cli.asking.kubernetes_asked import Place
from sluicegate_operator.cli.asking.why_report import AddressAnswers
from sluicegate_operator.cli.fleets.clusters_seen import Look as ReadClusters
from sluicegate_operator.cli.fleets.clusters_seen import look_here
from sluicegate_operator.cli.fleets.kubernetes_view import KubernetesView
from sluicegate_operator.cli.fleets.why import ask_here, ask_in_kubernetes
from sluicegate_operator.cli.top.model.look import Look
from sluicegate_operator.cli.top.sources.kafka_answers import KafkaPlace, KafkaWatch
from sluicegate_operator.cli.top.sources.limits_in_turn import LimitsInTurn
from sluicegate_operator.cli.top.sources.source import SourceError
from sluicegate_operator.fleet.local.local_data import DataDirError, read_state
from sluicegate_operator.kube.http.errors import KubeError

AskWhy = Callable[[str], Awaitable[Sequence[AddressAnswers]]]
LOOK_DEADLINE_S = 30.0
_NO_ANSWER = (DataDirError, NobodyToAskError, KubeError, ValueError)


def shown_now() -> str:
    return f"{datetime.now(UTC):%H:%M:%S}"


class FleetSource:
    """The looks at running clusters. `read` returns the clusters, whose limits `limits` asks for."""

    def __init__(self, title: str, read: ReadClusters, limits: LimitsInTurn, why: AskWhy) -> None:
        self.title = title
        self.watches: list[KafkaWatch] = []
        self._read = read
        self._limits = limits
        self._why = why

    async def look(self) -> Look:
        self._limits.begin()
        try:
            async with asyncio.timeout(LOOK_DEADLINE_S):
                clusters = await self._read()
        except TimeoutError:
            raise SourceError(f"no answer within {LOOK_DEADLINE_S:g} s; the console asks again") from None
        except _NO_ANSWER as error:
            raise SourceError(str(error)) from None
        return Look(
            at_s=time.monotonic(),
            shown_at=shown_now(),
            clusters=clusters,
            figures=dict(self._limits.figures),
            kafka=[watch.answers for watch in self.watches if watch.answers is not None],
            notes=tuple(watch.note for watch in self.watches if watch.note),
        )

    async def settle(self) -> None:
        for watch in self.watches:
            await watch.first.wait()

    async def why(self, address: str) -> Sequence[AddressAnswers]:
        try:
            return await self._why(address)
        except _NO_ANSWER as error:
            raise SourceError(str(error)) from None


@asynccontextmanager
async def source_here(data_dir: Path, cluster: str | None) -> AsyncIterator[FleetSource]:
    """Yield the source for the clusters of `sluicegate up`, or for one of them. Raises SourceError if none runs."""
    limits = LimitsInTurn()

    async def why(address: str) -> Sequence[AddressAnswers]:
        return await ask_here(str(ip_address(address)), cluster, data_dir)

    source = FleetSource(f"up in {data_dir}", look_here(data_dir, cluster, limits.ask), limits, why)
    try:
        names = [cluster] if cluster is not None else sorted(read_state(data_dir)["clusters"])
    except DataDirError as error:
        raise SourceError(f"{error}; or ask a cluster in Kubernetes with -n NAMESPACE") from None
    async with watching(source, [_place_here(data_dir, name) for name in names]):
        yield source


def _place_here(data_dir: Path, name: str) -> KafkaPlace:
    return KafkaPlace(name, lambda: (bootstrap_addresses(None, data_dir, name), security_here(data_dir, name)))


@asynccontextmanager
async def source_in_kubernetes(
    place: Place, cluster: str | None, kafka: KafkaPlace | None
) -> AsyncIterator[FleetSource]:
    """Yield the source for the clusters of a namespace. `kafka` has groups and partitions of one of them."""
    limits = LimitsInTurn()
    try:
        with place.client() as kube:

            async def why(address: str) -> Sequence[AddressAnswers]:
                asked = [str(ip_address(address))]
                return await ask_in_kubernetes(kube, asked, place.namespace, cluster, warn=lambda sentence: None)

            view = KubernetesView(kube, place.namespace, cluster, limits.ask)
            source = FleetSource(f"namespace {place.namespace}", view.read_clusters, limits, why)
            async with watching(source, [kafka] if kafka is not None else []):
                yield source
    except KubeError as error:
        raise SourceError(str(error)) from None


@asynccontextmanager
async def watching(source: FleetSource, places: Sequence[KafkaPlace]) -> AsyncIterator[None]:
    """Ask these clusters for groups and partitions until the end of the block."""
    async with AsyncExitStack() as stack:
        source.watches = [await stack.enter_async_context(KafkaWatch(place, time.monotonic)) for place in places]
        yield

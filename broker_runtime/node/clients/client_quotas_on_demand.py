"""Apply client quotas to the requests of a node. Their code is imported with the first quota (decision 45)."""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from broker_runtime.apis.request.call import Call, Completion
from broker_runtime.apis.request.context import Gate
from broker_runtime.clock import Clock
from broker_runtime.config import BrokerConfig
from broker_runtime.exposition import MetricFamily
from broker_runtime.metadata.image import MetadataImage

if TYPE_CHECKING:
    from broker_runtime.apis.request.charged_call import ChargedCall, ChargedMutations
    from broker_runtime.apis.request.enforced_quotas import EnforcedQuotas

IN_FORCE = "broker_runtime.node.clients.client_quotas_in_force"
METRICS = "broker_runtime.node.clients.client_quota_metrics"
_MUTATION_RATE = "controller_mutation_rate"


_MODULES = (
    "broker_runtime.client_quotas.managed_quota",
    "broker_runtime.client_quotas.rate_quota",
    "broker_runtime.apis.request.enforced_quotas",
    "broker_runtime.client_quotas.mutation_quota",
)
"""Imported one in each time slice, because all of them take up to ten milliseconds."""


class GatedCalls(Protocol):
    """The part of a dispatcher that enforces client quotas."""

    gate: Gate | None

    @property
    def completion(self) -> Completion: ...


class ClientQuotasOnDemand:
    """The client quotas of a broker. While no user or client id has a quota, no call is charged.

    Nothing is durable: a broker that restarts has forgotten all usage.
    """

    def __init__(self, config: BrokerConfig, image: MetadataImage, dispatcher: GatedCalls, clock: Clock) -> None:
        """`dispatcher` handles the calls of the broker's clients."""
        self._config = config
        self._image = image
        self._dispatcher = dispatcher
        self._gate = dispatcher.gate
        """The gate of the dispatcher without quotas."""
        self._clock = clock
        self._quotas: EnforcedQuotas | None = None

    def apply(self) -> Iterator[None]:
        """Adopt the current quotas of the metadata from the next request on.

        The first time, this takes several time slices.
        """
        dispatcher = self._dispatcher
        if not self._image.quotas.client_keys:
            dispatcher.completion.quotas, dispatcher.gate = None, self._gate
            return
        if self._quotas is None:
            for name in _MODULES:
                import_module(name)
                yield
        in_force = import_module(IN_FORCE)
        if self._quotas is None:
            self._quotas = in_force.enforced_quotas(self._config, self._image, self._clock.monotonic)
        quotas = self._quotas
        quotas.changed()
        dispatcher.completion.quotas, dispatcher.gate = quotas, in_force.throttling(quotas, self._gate)

    def collect(self) -> Iterator[MetricFamily]:
        """Yield the metrics of client quotas, if there has been a quota since the start of the process."""
        if self._quotas is not None:
            now_ms = int(self._clock.monotonic() * 1000)
            yield from import_module(METRICS).client_quota_families(self._quotas, now_ms)


class MutationsOnDemand:
    """The quota of created and deleted partitions, on a controller. Nothing is durable."""

    def __init__(self, config: BrokerConfig, image: Callable[[], MetadataImage], clock: Clock) -> None:
        """`image` returns the decided metadata."""
        self._config = config
        self._image = image
        self._clock = clock
        self._mutations: ChargedMutations | None = None

    def charge(self, call: Call, *, strict: bool) -> "ChargedCall | None":
        """Charge a call to the client quota for changes of the cluster, as `ControllerContext.charge` does."""
        if _MUTATION_RATE not in self._image().quotas.client_keys:
            return None
        if self._mutations is None:
            self._mutations = import_module(IN_FORCE).charged_mutations(self._config, self._image, self._clock)
        return self._mutations.charge(call, strict=strict)

    def collect(self) -> Iterator[MetricFamily]:
        """Yield the metrics of that quota, if there has been one since the start of the process."""
        if self._mutations is not None:
            now_ms = int(self._clock.monotonic() * 1000)
            yield from import_module(METRICS).mutation_quota_families(self._mutations.quota, now_ms)

"""Create the client quotas of one node from its configuration. Imported with the first quota (decision 45)."""

from collections.abc import Callable

from broker_runtime.apis.request.charged_call import ChargedMutations
from broker_runtime.apis.request.enforced_quotas import EnforcedQuotas
from broker_runtime.apis.request.enforced_quotas import throttling as throttling
from broker_runtime.client_quotas.managed_quota import Windows
from broker_runtime.client_quotas.mutation_quota import MutationQuota
from broker_runtime.client_quotas.rate_quota import fetch_quota, produce_quota, request_quota
from broker_runtime.clock import Clock
from broker_runtime.config import BrokerConfig
from broker_runtime.metadata.image import MetadataImage


def enforced_quotas(config: BrokerConfig, image: MetadataImage, now: Callable[[], float]) -> EnforcedQuotas:
    """Return the client quotas that a broker enforces. `now` returns seconds."""
    size_ms = config.quota_window_size_seconds * 1000
    windows = Windows(config.quota_window_num, size_ms, config.sluicegate_client_quota_buckets_max)
    return EnforcedQuotas(
        produce_quota(windows, lambda: image.quotas),
        fetch_quota(windows, lambda: image.quotas),
        request_quota(windows, lambda: image.quotas),
        now,
    )


def charged_mutations(config: BrokerConfig, image: Callable[[], MetadataImage], clock: Clock) -> ChargedMutations:
    """Return the quota that charges clients for changes of partitions, for a controller.

    `image` returns the metadata after the last decision.
    """
    size_ms = config.controller_quota_window_size_seconds * 1000
    windows = Windows(config.controller_quota_window_num, size_ms, config.sluicegate_client_quota_buckets_max)
    return ChargedMutations(MutationQuota(windows, lambda: image().quotas), clock)

"""How many replicas this process can hold with the files that it may have open (RLIMIT_NOFILE).

A replica has the file of each of its segments open, and an index while that is read, written or synced; connections
need some too.
"""

import logging
import resource

from broker_runtime.config import BrokerConfig, BrokerSettings

log = logging.getLogger(__name__)

_FILES_PER_REPLICA = 3
"""An idle replica with one segment has one; the others are for older segments."""
_RESERVE_LEAST = 256
_RESERVE_SHARE = 4
"""That part of all descriptors is left to connections, at least the number before."""


def raise_descriptor_limit() -> int | None:
    """The soft limit of a shell is far below what is allowed. Returns the limit, None where there is none."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return None if hard == resource.RLIM_INFINITY else hard


def replicas_for(open_files: int) -> int:
    reserve = max(_RESERVE_LEAST, open_files // _RESERVE_SHARE)
    return max((open_files - reserve) // _FILES_PER_REPLICA, 1)


def with_replicas_max(settings: BrokerSettings, open_files: int | None) -> BrokerSettings:
    """The settings with a limit of replicas: what they say themselves, else what `open_files` allow."""
    if settings.config.sluicegate_broker_replicas_max is not None or open_files is None:
        return settings
    limit = replicas_for(open_files)
    log.info(
        "a broker may have %d replicas of partitions: %d files may be open (RLIMIT_NOFILE), and connections need some",
        limit,
        open_files,
    )
    return settings.with_value(BrokerConfig.sluicegate_broker_replicas_max, limit)

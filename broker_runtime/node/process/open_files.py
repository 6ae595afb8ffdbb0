"""Compute how many replicas this process can have, given its limit of open files (RLIMIT_NOFILE).

A replica has the file of each of its segments open, and an index while that is read, written or synced. Connections
need descriptors, too.
"""

import logging
import resource

from broker_runtime.config import BrokerConfig, BrokerSettings

log = logging.getLogger(__name__)

_FILES_PER_REPLICA = 3
"""An idle replica with one segment has one open file; the others are for older segments."""
_RESERVE_LEAST = 256
_RESERVE_SHARE = 4
"""One descriptor in this many is reserved for connections, but at least `_RESERVE_LEAST`."""


def raise_descriptor_limit() -> int | None:
    """Raise the soft limit of open files, which is far below the hard one in a shell.

    Returns the limit; None if there is none.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return None if hard == resource.RLIM_INFINITY else hard


def replicas_for(open_files: int) -> int:
    reserve = max(_RESERVE_LEAST, open_files // _RESERVE_SHARE)
    return max((open_files - reserve) // _FILES_PER_REPLICA, 1)


def with_replicas_max(settings: BrokerSettings, open_files: int | None) -> BrokerSettings:
    """Return the settings with a limit of replicas: the configured limit, else the one that `open_files` allow."""
    if settings.config.sluicegate_broker_replicas_max is not None or open_files is None:
        return settings
    limit = replicas_for(open_files)
    log.info(
        "a broker may have %d replicas of partitions: at most %d files may be open (RLIMIT_NOFILE), and "
        "connections need some",
        limit,
        open_files,
    )
    return settings.with_value(BrokerConfig.sluicegate_broker_replicas_max, limit)

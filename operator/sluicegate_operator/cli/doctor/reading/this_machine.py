"""Reads the data folder of `sluicegate up`, its nodes, and what brokers report about themselves."""

import asyncio
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from sluicegate_operator.api.models.parts.broker_tags import VERSION_TAG
from sluicegate_operator.cli.asking.bootstrap import BootstrapError, bootstrap_addresses, security_here
from sluicegate_operator.cli.asking.brokers_asked import NobodyToAskError
from sluicegate_operator.cli.doctor.checks.addresses import ListenerAddress, address_results
from sluicegate_operator.cli.doctor.checks.clusters import cluster_results, release_results
from sluicegate_operator.cli.doctor.checks.machine import FolderSeen, folder_results, up_results
from sluicegate_operator.cli.doctor.checks.objects import row_results
from sluicegate_operator.cli.doctor.checks.results import CheckResult, Unread
from sluicegate_operator.cli.doctor.checks.space import DiskSpace
from sluicegate_operator.cli.doctor.reading.reachable import tried
from sluicegate_operator.cli.fleets.fleet_view import FleetView, ShownCluster
from sluicegate_operator.fleet.local.local_data import DataDirError
from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.kafka_admin.errors import KafkaAdminError

DESCRIBE_TIMEOUT_S = 5.0
STATE_FILE = "state.json"


async def machine_results(data_dir: Path, wanted: str | None, release: str | None) -> list[CheckResult]:
    """Return the results about the data folder, and about the clusters that `up` runs in it.

    `wanted` names one cluster; None means all. Raises NobodyToAskError if `up` runs others only.
    """
    results = list(folder_results(folder_seen(data_dir)))
    try:
        clusters = await FleetView(data_dir).read_clusters()
    except DataDirError as error:
        return [*results, *up_results(Unread(str(error)), is_damaged=STATE_FILE in str(error))]
    except (OSError, LookupError, TypeError) as error:
        return [*results, *up_results(Unread(f"{data_dir / STATE_FILE}: {error!r}"), is_damaged=True)]
    names = [cluster.name for cluster in clusters]
    if wanted is not None and wanted not in names:
        raise NobodyToAskError(f"--cluster {wanted}: `up` runs {', '.join(names)}")
    chosen = [cluster for cluster in clusters if wanted in (None, cluster.name)]
    addresses = [address for cluster in chosen for address in _addresses(cluster)]
    attempts, releases = await asyncio.gather(tried(addresses), _releases(data_dir, chosen))
    return [
        *results,
        *up_results(names),
        *cluster_results(chosen),
        *release_results(releases, release),
        *address_results(attempts),
        *row_results(chosen),
    ]


def folder_seen(folder: Path) -> FolderSeen:
    """Return the state of the data folder; before the first `up`, that of the folder in which it would be created."""
    path = folder.absolute()
    place = next(one for one in (path, *path.parents) if one.exists())
    space: DiskSpace | Unread
    try:
        usage = shutil.disk_usage(place)
        space = DiskSpace(f"disk of {path}", usage.free, usage.total)
    except OSError as error:
        space = Unread(error.strerror or str(error))
    refusal = ""
    if not place.is_dir():
        refusal = f"{place} is not a folder"
    elif not os.access(place, os.W_OK | os.X_OK):
        refusal = f"this user may not write into {place}"
    return FolderSeen(str(path), path.exists(), refusal, space)


def _addresses(cluster: ShownCluster) -> list[ListenerAddress]:
    return [
        ListenerAddress(f"{name} of {cluster.name}", address, is_outside=True)
        for node in cluster.nodes
        for name, address in sorted(node.listeners.items())
    ]


async def _releases(data_dir: Path, clusters: list[ShownCluster]) -> Mapping[str, Mapping[int, str] | Unread]:
    return {cluster.name: await _releases_of(data_dir, cluster.name) for cluster in clusters if cluster.nodes}


async def _releases_of(data_dir: Path, cluster: str) -> Mapping[int, str] | Unread:
    try:
        addresses = bootstrap_addresses(None, data_dir, cluster)
        security = security_here(data_dir, cluster)
        async with (
            asyncio.timeout(DESCRIBE_TIMEOUT_S),
            AdminClient(addresses, client_id="sluicegate-doctor", security=security) as admin,
        ):
            told = await admin.describe_brokers(())
    except (BootstrapError, KafkaAdminError, OSError) as error:
        return Unread(str(error) or "no answer in time")
    return {one.id: one.tags[VERSION_TAG] for one in told if VERSION_TAG in one.tags}

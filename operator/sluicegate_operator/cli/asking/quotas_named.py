"""Finds the ConnectionQuotas behind a limit that brokers know by an address, a listener or the whole broker.

A connection group has its quota's name. The other limits are Kafka's own, and another client may have set them: then no
quota is named.
"""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from pathlib import Path

from sluicegate_operator.api.manifests import load_manifests
from sluicegate_operator.api.models.connection_quota import ConnectionQuota
from sluicegate_operator.fleet.local.local_data import manifests_file
from sluicegate_operator.kube.cache.cached_object import read_object
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.http.kinds import CONNECTION_QUOTA
from sluicegate_operator.quotas.model.targets import TargetKey, TargetKind

Behind = Mapping[tuple[str, str], tuple[str, ...]]
"""The quotas that apply: names with their namespaces, by cluster and limit.

A limit is `ip`, `default`, `broker` or `listener NAME`.
"""
_KINDS = {TargetKind.IP: "ip", TargetKind.DEFAULT_IP: "default", TargetKind.BROKER: "broker"}


def behind(quotas: Iterable[ConnectionQuota], address: str) -> Behind:
    """Return the quotas that apply to connections of this address, without those of connection groups.

    If two quotas have one target, both are named.
    """
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for quota in sorted(quotas, key=lambda one: one.identity):
        limit = _limit(TargetKey.of_quota(quota), str(ip_address(address)))
        if limit:
            of_limit = quota.cluster_name, limit
            found[of_limit] = (*found.get(of_limit, ()), f"{quota.namespace}/{quota.name}")
    return found


def _limit(target: TargetKey, address: str) -> str:
    """Return the limit's name; empty for a limit that does not apply to this address."""
    if target.kind is TargetKind.LISTENER:
        return f"listener {target.name}"
    return _KINDS.get(target.kind, "") if target.name in ("", address) else ""


def quotas_here(data_dir: Path) -> list[ConnectionQuota]:
    """Return the quotas of `sluicegate up`, as of its last read of the files."""
    return list(load_manifests([manifests_file(data_dir)]).of_kind(ConnectionQuota))


async def quotas_in_kubernetes(kube: KubeClient, namespace: str) -> list[ConnectionQuota]:
    """Return the quotas of a namespace, without those that cannot be read. Raises KubeError."""
    found = [read_object(body) for body in await kube.list(CONNECTION_QUOTA, namespace)]
    return [quota for quota in found if isinstance(quota, ConnectionQuota)]

"""Which ConnectionQuotas stand behind what brokers know by an address only.

A connection group has its quota's name. The rate and the number of one address, or the default of all of them, are
Kafka's own, and may also be somebody else's: then no quota is named.
"""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from pathlib import Path

from sluicegate_operator.api.connection_quota import ConnectionQuota
from sluicegate_operator.api.manifests import load_manifests
from sluicegate_operator.fleet.local_data import manifests_file
from sluicegate_operator.kube.client import KubeClient
from sluicegate_operator.kube.held import read_object
from sluicegate_operator.kube.kinds import CONNECTION_QUOTA
from sluicegate_operator.planning.quotas import TargetKey, TargetKind

Behind = Mapping[tuple[str, str], tuple[str, ...]]
"""By cluster and a limit's kind as brokers say it (`ip`, `default`): names of quotas, with their namespaces."""
_KINDS = {TargetKind.IP: "ip", TargetKind.DEFAULT_IP: "default"}


def behind(quotas: Iterable[ConnectionQuota], address: str) -> Behind:
    """Of those on this address, or on every address; two on one target are both named."""
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for quota in sorted(quotas, key=lambda one: one.identity):
        target = TargetKey.of_quota(quota)
        if target.kind in _KINDS and target.name in ("", str(ip_address(address))):
            of_limit = quota.cluster_name, _KINDS[target.kind]
            found[of_limit] = (*found.get(of_limit, ()), f"{quota.namespace}/{quota.name}")
    return found


def quotas_here(data_dir: Path) -> list[ConnectionQuota]:
    """Of `sluicegate up`, as it has read them last."""
    return list(load_manifests([manifests_file(data_dir)]).of_kind(ConnectionQuota))


async def quotas_in_kubernetes(kube: KubeClient, namespace: str) -> list[ConnectionQuota]:
    """Those that can be read. Raises KubeError."""
    found = [read_object(body) for body in await kube.list(CONNECTION_QUOTA, namespace)]
    return [quota for quota in found if isinstance(quota, ConnectionQuota)]

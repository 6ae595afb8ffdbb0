"""End the term of an active controller whose process is gone: its Lease need not expire (decision 15)."""

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.fleet.pods.finding_pods import all_pods
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.http.errors import KubeConflictError
from sluicegate_operator.kube.http.kinds import LEASE
from sluicegate_operator.planning.layout.cluster_layout import FIRST_CONTROLLER_ID, Role, journal_name
from sluicegate_operator.planning.registrations.controller_lease import lease_holder, why_holder_gone
from sluicegate_operator.planning.registrations.fencing import BrokerPod


async def end_term_of_gone(kube: KubeClient, cluster: BrokerCluster) -> str:
    """End the Lease of a controller that is gone. Return why the Lease has no holder now; empty if it is unchanged.

    Raises KubeError.
    """
    name = journal_name(cluster)
    lease = await kube.get(LEASE, cluster.namespace, name)
    holder = None if lease is None else lease_holder(lease)
    if lease is None or holder is None:
        return ""
    ordinals = range(FIRST_CONTROLLER_ID, FIRST_CONTROLLER_ID + cluster.spec.controller_count)
    # A controller with a higher id is being removed by a change of scale, and was not read by name.
    if holder.node_id not in ordinals:
        return ""
    pods = {pod.node_id: pod for pod in await all_pods(kube, cluster, None, fresh=True) if pod.role is Role.CONTROLLER}
    pod = pods.get(holder.node_id)
    found = None if pod is None else BrokerPod(pod.name, pod.node_id, pod.host, ended=pod.ended, uid=pod.uid)
    why = why_holder_gone(holder, found)
    if not why:
        return ""
    # Replace the version that was read: if the holder has renewed it since, it keeps the Lease.
    ended = {**lease, "spec": {**lease["spec"], "holderIdentity": ""}}
    try:
        await kube.replace(LEASE, cluster.namespace, name, ended)
    except KubeConflictError:
        return ""
    return why

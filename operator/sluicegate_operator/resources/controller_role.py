"""Rights of controllers that share a journal, in their namespace: store the journal, and hold the active one's Lease.

The Role is the least that the journal needs. Names of journal objects begin with the cluster's name, and a Role cannot
express that. So a controller may read and delete other ConfigMaps of its namespace, but nothing else, and no Secret.
"""

from typing import Any

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.resources.labels import journal_account_name, labels
from sluicegate_operator.resources.owner import child_metadata

ROLE = "controller"


def journal_rights(cluster: BrokerCluster) -> list[dict[str, Any]]:
    """Return the ServiceAccount, Role and RoleBinding with which controllers write their journal."""
    name = journal_account_name(cluster.name)
    rbac = "rbac.authorization.k8s.io"

    def metadata() -> dict[str, Any]:
        return child_metadata(cluster, name, labels(cluster.name, ROLE))

    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(),
        # The pods request the token themselves.
        "automountServiceAccountToken": False,
    }
    role = {
        "apiVersion": f"{rbac}/v1",
        "kind": "Role",
        "metadata": metadata(),
        "rules": [
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "get", "list", "update", "delete"]},
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "get", "update"]},
        ],
    }
    binding = {
        "apiVersion": f"{rbac}/v1",
        "kind": "RoleBinding",
        "metadata": metadata(),
        "roleRef": {"apiGroup": rbac, "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": cluster.namespace}],
    }
    return [account, role, binding]

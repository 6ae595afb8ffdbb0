"""What a container requests and may use at most where nobody says: every pod of ours has both.

A ResourceQuota refuses pods without the amounts that it counts, and a node that is short of memory kills first who has
requested none. The limits leave room for what was measured to need most; whoever knows better says resources.
"""

from sluicegate_operator.api.resource_amounts import Resources

BROKER = Resources(requests={"cpu": "100m", "memory": "128Mi"}, limits={"cpu": "2", "memory": "1Gi"})
"""One event loop and threads that wait for the disk: two processors are never all used."""
CONTROLLER = Resources(requests={"cpu": "50m", "memory": "64Mi"}, limits={"cpu": "1", "memory": "512Mi"})
LANDER = Resources(requests={"cpu": "50m", "memory": "256Mi"}, limits={"cpu": "2", "memory": "2Gi"})
"""0.6 GB were seen while segments of a day are made one: docs/reference/audit-log.md."""
AUDIT_JOB = Resources(requests={"cpu": "500m", "memory": "1Gi"}, limits={"cpu": "4", "memory": "2Gi"})
"""Spark's heap of 1 GiB, and as much beside it."""


def container_resources(said: Resources | None, otherwise: Resources) -> dict[str, dict[str, str]]:
    """`said`, and of `otherwise` what is named in neither its requests nor its limits: Kubernetes takes a limit alone
    for the request, too, and who says a request alone has no limit."""
    own, wanted = _parts(otherwise), _parts(said or Resources())
    named = {name for amounts in wanted.values() for name in amounts}
    unsaid = {part: {name: text for name, text in own[part].items() if name not in named} for part in own}
    both = {part: unsaid[part] | wanted[part] for part in own}
    return {part: amounts for part, amounts in both.items() if amounts}


def memory_limit(said: Resources | None, container: str) -> str:
    """The memory limit of a broker, controller or lander as a quantity; empty without one. `container`: its name."""
    otherwise = {"broker": BROKER, "controller": CONTROLLER}.get(container, LANDER)
    return container_resources(said, otherwise).get("limits", {}).get("memory", "")


def _parts(resources: Resources) -> dict[str, dict[str, str]]:
    return {"requests": dict(resources.requests or {}), "limits": dict(resources.limits or {})}

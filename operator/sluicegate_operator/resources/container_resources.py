"""Default requests and limits of containers: every pod of the operator has both.

A ResourceQuota refuses pods without the amounts that it counts, and a node that is short of memory first kills pods
without requests. The limits leave room above the highest measured use; users with other needs set resources.
"""

from sluicegate_operator.api.schema.resource_amounts import Resources

BROKER = Resources(requests={"cpu": "100m", "memory": "128Mi"}, limits={"cpu": "2", "memory": "1Gi"})
"""Default resources of a broker.

A broker has one event loop, and threads that wait for the disk: two processors are never fully used.
"""
CONTROLLER = Resources(requests={"cpu": "50m", "memory": "64Mi"}, limits={"cpu": "1", "memory": "512Mi"})
LANDER = Resources(requests={"cpu": "50m", "memory": "256Mi"}, limits={"cpu": "2", "memory": "2Gi"})
"""Default resources of a lander.

Measured: 0.6 GB while a day's segments are merged, see docs/reference/audit-log.md.
"""
AUDIT_JOB = Resources(requests={"cpu": "500m", "memory": "1Gi"}, limits={"cpu": "4", "memory": "2Gi"})
"""Default resources of an audit job: Spark's heap of 1 GiB, and as much beside it."""


def container_resources(given: Resources | None, otherwise: Resources) -> dict[str, dict[str, str]]:
    """Return the user's resources `given`, completed from the defaults `otherwise`.

    A default is used only for a name that is in neither requests nor limits of `given`. Kubernetes uses a limit without
    a request as the request, and a request without a limit means no limit.
    """
    own, wanted = _parts(otherwise), _parts(given or Resources())
    named = {name for amounts in wanted.values() for name in amounts}
    unsaid = {part: {name: text for name, text in own[part].items() if name not in named} for part in own}
    both = {part: unsaid[part] | wanted[part] for part in own}
    return {part: amounts for part, amounts in both.items() if amounts}


def memory_limit(given: Resources | None, container: str) -> str:
    """Return the memory limit of a broker, controller or lander as a quantity; empty without one.

    `container` is its name.
    """
    otherwise = {"broker": BROKER, "controller": CONTROLLER}.get(container, LANDER)
    return container_resources(given, otherwise).get("limits", {}).get("memory", "")


def _parts(resources: Resources) -> dict[str, dict[str, str]]:
    return {"requests": dict(resources.requests or {}), "limits": dict(resources.limits or {})}

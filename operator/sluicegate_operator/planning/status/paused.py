"""The status of an object whose BrokerCluster is paused. Pure.

The operator does nothing for such an object, so most of the status stays unchanged. Ready, Reconciling and Stalled get
the reason Paused. A condition that reported a missing cluster becomes Unknown.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

from sluicegate_operator.api.schema.metadata import Condition, Resource, Status
from sluicegate_operator.planning.status.conditions import (
    READY,
    RECONCILING,
    STALLED,
    Finding,
    conditions,
    observed_generation,
    ready,
    working,
)

PAUSED = "Paused"
CLUSTER_MISSING = "ClusterMissing"

Found = TypeVar("Found", bound=Status)


def paused_status(resource: Resource, old: Found, now: datetime, fields: Mapping[str, Any] | None = None) -> Found:
    """Return the status of the paused `resource`. `old` is its present status.

    `fields` are status fields that follow from the object itself, by their Python names. Ready stays True if this
    generation was applied before the pause. Any other object waits for the end of the pause, and is Reconciling.
    """
    message = (
        f"spec.paused of BrokerCluster {resource.cluster_name} is true: the operator changes nothing until it is false"
    )
    progress = (ready if _is_applied(resource, old) else working)(PAUSED, message)
    others = [one for one in old.conditions if one.type not in (READY, RECONCILING, STALLED)]
    told = (*conditions(resource, old, progress.findings, now), *(_known(resource, old, one, now) for one in others))
    generation = observed_generation(resource, old, progress)
    return old.model_copy(update={**(fields or {}), "observed_generation": generation, "conditions": told})


def _is_applied(resource: Resource, old: Status) -> bool:
    before = old.condition(READY)
    return before is not None and (before.status, before.observed_generation) == ("True", resource.metadata.generation)


def _known(resource: Resource, old: Status, condition: Condition, now: datetime) -> Condition:
    if condition.reason != CLUSTER_MISSING:
        return condition
    message = f"BrokerCluster {resource.cluster_name} is paused, so this condition is not checked"
    (unknown,) = conditions(resource, old, [Finding(condition.type, None, PAUSED, message)], now)
    return unknown

"""The kinds that the operator watches, and how soon it notices that a watch has been cut off silently.

The operator requests each watch again after `period_s`, from its last resourceVersion. So it notices a cut-off watch
after at most `period_s` and a few seconds. The periods also determine the load of an idle operator: one request for
each kind in each period.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sluicegate_operator.kube.http.kinds import (
    BROKER_REGISTRATION,
    CHILDREN,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    SERVICE,
    STATEFUL_SET,
    USER_KINDS,
    Kind,
)
from sluicegate_operator.resources.labels import CLUSTER_LABEL

NEWS_S = 30
"""Period in seconds of kinds that users write, and of pods: limits and registrations follow from them."""
SLOW_NEWS_S = 60
CHILDREN_S = 300
"""Period in seconds of kinds that only the operator writes: other writers are rare."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A kind of objects that the operator's cache watches.

    `period_s`: seconds between two requests of the watch; `selector`: a label that the objects must have;
    `metadata_only`: the API server sends only the objects' metadata; `trim` returns the part of a document to cache.
    """

    kind: Kind
    period_s: int
    selector: str = ""
    metadata_only: bool = False
    trim: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None


WATCHED = (
    *(Watched(kind, NEWS_S) for kind in USER_KINDS),
    Watched(BROKER_REGISTRATION, SLOW_NEWS_S),
    Watched(POD, NEWS_S, CLUSTER_LABEL),
    Watched(STATEFUL_SET, SLOW_NEWS_S, CLUSTER_LABEL),
    Watched(SERVICE, SLOW_NEWS_S, CLUSTER_LABEL),
    Watched(PERSISTENT_VOLUME_CLAIM, CHILDREN_S, CLUSTER_LABEL),
    *(Watched(kind, CHILDREN_S, CLUSTER_LABEL, metadata_only=True) for kind in CHILDREN),
)

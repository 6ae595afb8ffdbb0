"""What the operator watches, and how soon it notices that a watch has been cut off without a word.

That is `period_s` and a few seconds: by then the watch is asked again, from where it was. It is also how many requests
an hour of peace costs.
"""

from sluicegate_operator.kube.kinds import (
    BROKER_REGISTRATION,
    CHILDREN,
    CUSTOM,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    SERVICE,
    STATEFUL_SET,
)
from sluicegate_operator.kube.watching import Watched
from sluicegate_operator.resources.labels import CLUSTER_LABEL

NEWS_S = 30
"""What people write, and pods: limits and registrations follow from it."""
SLOW_NEWS_S = 60
CHILDREN_S = 300
"""What only somebody else's hand changes."""

WATCHED = (
    *(Watched(kind, NEWS_S) for kind in CUSTOM),
    Watched(BROKER_REGISTRATION, SLOW_NEWS_S),
    Watched(POD, NEWS_S, CLUSTER_LABEL),
    Watched(STATEFUL_SET, SLOW_NEWS_S, CLUSTER_LABEL),
    Watched(SERVICE, SLOW_NEWS_S, CLUSTER_LABEL),
    Watched(PERSISTENT_VOLUME_CLAIM, CHILDREN_S, CLUSTER_LABEL),
    *(Watched(kind, CHILDREN_S, CLUSTER_LABEL, metadata_only=True) for kind in CHILDREN),
)

"""State that is kept for each BrokerCluster between two reconciles."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from sluicegate_operator.api.models.broker_cluster import BrokerCluster

Key = tuple[str, str]
"""The namespace and name of a BrokerCluster."""

State = TypeVar("State")


@dataclass(slots=True)
class ByCluster(Generic[State]):
    """One state for each BrokerCluster, by namespace and name. `make` returns the state of a new cluster.

    A BrokerCluster may be deleted while a queue reconciles it, and another one may be created with its name. The new
    one has other pods, sessions and epochs. So a queue takes the state once, after it has read the cluster: then it
    changes only that object, which no later cluster gets.
    """

    make: Callable[[], State]
    _states: dict[Key, tuple[str, State]] = field(default_factory=dict)
    """States by cluster, each with the uid of its BrokerCluster."""

    def of(self, cluster: BrokerCluster) -> State:
        """Return the state of the BrokerCluster with this uid.

        The state of an earlier BrokerCluster with the same name is forgotten.
        """
        key, uid = (cluster.namespace, cluster.name), cluster.metadata.uid
        known = self._states.get(key)
        if known is None or known[0] != uid:
            known = self._states[key] = uid, self.make()
        return known[1]

    def __getitem__(self, key: Key) -> State:
        """Return the state of the last BrokerCluster with this name. Raises KeyError before `of` was called for it."""
        return self._states[key][1]

    def get(self, key: Key) -> State | None:
        """Return the state of the last BrokerCluster with this name; None before `of` was called for it."""
        known = self._states.get(key)
        return None if known is None else known[1]

    def forget(self, key: Key) -> None:
        """Forget the state of a BrokerCluster, if it has one."""
        self._states.pop(key, None)

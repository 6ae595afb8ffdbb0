"""Why nodes do not start, in the words of whoever knows: a kubelet, the scheduler, the API server, the node itself.

Much of it passes by itself within seconds, or comes and goes while it lasts: a container that crashes again and again
runs in between. So a failure is remembered until its node is well, and a person is called when it has lasted.
"""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field
from math import inf

LASTING_S = 15.0
FORGOTTEN_AFTER_S = 60.0
"""A container may run for so long before it crashes the next time."""
STORAGE_CLASS_MISSING = "StorageClassMissing"
PROVISIONING_FAILED = "ProvisioningFailed"
PATIENT = frozenset({"Unschedulable", PROVISIONING_FAILED})
"""A scheduler or a storage driver tries again by itself, for example when a machine or a disk was added."""


@dataclass(frozen=True, slots=True)
class StartFailure:
    """`reason` is Kubernetes' word, for example CrashLoopBackOff; `message` is a sentence, or empty. `container` is the
    name of the one that failed, where the failure is that of a container."""

    reason: str
    message: str = ""
    container: str = ""

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}" if self.message else self.reason


@dataclass(frozen=True, slots=True)
class FailingNode:
    """`uid` is its pod's, or its own name while it has none."""

    name: str
    uid: str
    failure: StartFailure

    @property
    def sentence(self) -> str:
        return f"{self.name} does not start: {self.failure}"


@dataclass(frozen=True, slots=True)
class NodesNotStarting:
    """The one to be told of; `needs_a_person` when it has lasted and will not pass by itself."""

    node: FailingNode
    needs_a_person: bool


@dataclass(frozen=True, slots=True)
class _Seen:
    first_s: float
    last_s: float
    node: FailingNode


@dataclass(slots=True)
class FailureHistory:
    """Of the clusters of one name. Another cluster, or another generation of its spec, is another attempt: the history
    begins anew."""

    _attempt: Hashable = None
    _seen: dict[str, _Seen] = field(default_factory=dict)

    def note(
        self,
        attempt: Hashable,
        failing: Sequence[FailingNode],
        unwell: Collection[str],
        now_s: float,
        stalled_for: str = "",
    ) -> NodesNotStarting | None:
        """`attempt` names the cluster's uid and the generation of its spec. `failing` are those that fail at this
        moment, the most important first; who began to fail first is told first. `unwell`: uids of all
        that are not ready, the others are forgotten. `stalled_for`: the reason for which the cluster is Stalled already
        by its status: in the first look of a term such a failure has lasted."""
        known = "" if self._attempt is not None else stalled_for
        if attempt != self._attempt:
            self._attempt, self._seen = attempt, {}
        now_failing = {
            node.uid: _Seen(-inf if node.failure.reason == known else self._first_s(node, now_s), now_s, node)
            for node in failing
        }
        remembered = {
            uid: seen
            for uid, seen in self._seen.items()
            if uid in now_failing or (uid in unwell and now_s - seen.last_s <= FORGOTTEN_AFTER_S)
        }
        # In the order in which they began: nodes that take turns at crashing are no news each time.
        self._seen = remembered | now_failing
        found = [NodesNotStarting(seen.node, _needs_a_person(seen, now_s)) for seen in self._seen.values()]
        return min(found, key=lambda one: not one.needs_a_person, default=None)

    def _first_s(self, node: FailingNode, now_s: float) -> float:
        return self._seen[node.uid].first_s if node.uid in self._seen else now_s


def _needs_a_person(seen: _Seen, now_s: float) -> bool:
    return is_stuck(seen.node.failure, now_s - seen.first_s)


def is_stuck(failure: StartFailure, lasting_s: float) -> bool:
    """Whether a failure that has lasted so long needs a person."""
    return failure.reason not in PATIENT and lasting_s >= LASTING_S

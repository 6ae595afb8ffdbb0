"""Why nodes do not start, as reported by a kubelet, the scheduler, the API server or the node itself.

Many failures pass within seconds, or come and go while the cause lasts: a container that crashes repeatedly runs in
between. So a failure is remembered until its node is well, and a user must act only after it has lasted.
"""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field
from math import inf

LASTING_S = 15.0
FORGOTTEN_AFTER_S = 60.0
"""Seconds for which the failure of an unready node is remembered: the time that may pass between two crashes."""
STORAGE_CLASS_MISSING = "StorageClassMissing"
PROVISIONING_FAILED = "ProvisioningFailed"
PATIENT = frozenset({"Unschedulable", PROVISIONING_FAILED})
"""Reasons with which a scheduler or a storage driver keeps retrying, for example until a machine or disk is added."""


@dataclass(frozen=True, slots=True)
class StartFailure:
    """The reason why a node does not start.

    `reason` is Kubernetes' reason, for example CrashLoopBackOff; `message` is a sentence, or empty. `container` is the
    name of the failed container, if a container failed.
    """

    reason: str
    message: str = ""
    container: str = ""

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}" if self.message else self.reason


@dataclass(frozen=True, slots=True)
class FailingNode:
    """A node that does not start. `uid` is that of its pod, or its own name if it has no pod."""

    name: str
    uid: str
    failure: StartFailure

    @property
    def sentence(self) -> str:
        return f"{self.name} does not start: {self.failure}"


@dataclass(frozen=True, slots=True)
class NodesNotStarting:
    """The node that the cluster's status reports as not starting.

    `needs_a_person`: its failure has lasted and does not pass by waiting.
    """

    node: FailingNode
    needs_a_person: bool


@dataclass(frozen=True, slots=True)
class _Seen:
    first_s: float
    last_s: float
    node: FailingNode


@dataclass(slots=True)
class FailureHistory:
    """Failures of nodes to start, in clusters of one name.

    Another cluster of the name, or another generation of its spec, is another attempt, for which the history starts
    again.
    """

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
        """Record the present failures, and return the one to report.

        - `attempt`: identifies the cluster's uid and the generation of its spec.
        - `failing`: nodes that fail at this moment, the most important first. The node that began to fail first is
          reported first.
        - `unwell`: uids of all nodes that are not ready; other nodes are forgotten.
        - `stalled_for`: the reason with which the cluster's status is already Stalled. At the first reconcile of a
          leader's term, such a failure counts as lasting.
        """
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
        # In the order in which they began: nodes that crash alternately do not change the report each time.
        self._seen = remembered | now_failing
        found = [NodesNotStarting(seen.node, _needs_a_person(seen, now_s)) for seen in self._seen.values()]
        return min(found, key=lambda one: not one.needs_a_person, default=None)

    def _first_s(self, node: FailingNode, now_s: float) -> float:
        return self._seen[node.uid].first_s if node.uid in self._seen else now_s


def _needs_a_person(seen: _Seen, now_s: float) -> bool:
    return is_stuck(seen.node.failure, now_s - seen.first_s)


def is_stuck(failure: StartFailure, lasting_s: float) -> bool:
    """Return whether a failure that has lasted for `lasting_s` seconds needs a user's action."""
    return failure.reason not in PATIENT and lasting_s >= LASTING_S

"""Runs in which the operator is killed at each step, and the objects that existed during these runs.

SLUICEGATE_KILLS=twice kills before and after each step; otherwise only before or after.
"""

import logging
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from e2e.cluster.waiting import NotInTimeError, wait_for
from e2e.world.engine_world import KINDS, EngineWorld
from e2e.world.operator_killer import Applied, OperatorKiller, applied
from tests.support.processes.kube_watch import KubeWatch
from tests.support.processes.process_kubelet.api import Access, Json

TWICE = os.environ.get("SLUICEGATE_KILLS") == "twice"
QUIET_S = 2.5
RESYNC_S = 1.0
TIMEOUT_S = 400.0

log = logging.getLogger(__name__)


class Lives:
    """Uids of all objects that ever existed in a collection, by name. Use as `with`."""

    def __init__(self, world: EngineWorld, plural: str, api: str = "api/v1") -> None:
        self.uids: defaultdict[str, set[str]] = defaultdict(set)
        self.deleted: set[str] = set()
        """Names of deleted objects."""
        access = Access(world.plane.url, str(world.plane.certificate), world.plane.token)
        self._watch = KubeWatch(access, f"/{api}/namespaces/{world.namespace}/{plural}", self._heard)

    def __enter__(self) -> "Lives":
        self._watch.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.__exit__(None, None, None)

    def _heard(self, event: str, item: Json) -> None:
        self.uids[item["metadata"]["name"]].add(item["metadata"]["uid"])
        if event == "DELETED":
            self.deleted.add(item["metadata"]["name"])

    @property
    def lives(self) -> Counter[str]:
        return Counter({name: len(uids) for name, uids in self.uids.items()})


def all_ready(world: EngineWorld) -> bool:
    try:
        return not world.unready(KINDS)
    except (AssertionError, NotInTimeError):
        return False


def one_after_another(told: Sequence[float | str | None]) -> list[float | str | None]:
    """Remove consecutive repetitions of a value."""
    return [value for before, value in zip([object(), *told], told, strict=False) if value != before]


class Killed:
    """Runs with an operator that dies at each step; `until` returns the steps of a run."""

    def __init__(self, world: EngineWorld) -> None:
        self._world = world
        self._operator = world.operator(resync_s=RESYNC_S)
        self._known: set[Applied] = set()

    def __enter__(self) -> "Killed":
        self._operator.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._operator.kill()

    def settle(self) -> None:
        """Run without kills until all objects are Ready, and record what a new operator applies again."""
        wait_for("all is Ready", lambda: all_ready(self._world))
        self._operator.kill()
        before = len(self._world.proxy.written)
        self._operator.start()
        seen: list[int] = []

        def quiet() -> bool:
            written = sum("/leases/" not in request.path for request in self._world.proxy.written[before:])
            seen.append(written)
            return written > 0 and seen[-2:-1] == [written]

        wait_for("it has applied what it applies", quiet, interval_s=QUIET_S / 2)
        if not TWICE:
            self._known |= {child for child in map(applied, self._world.proxy.written) if child is not None}

    def until(
        self,
        is_done: Callable[[], bool],
        change: Callable[[], None] = lambda: None,
        meanwhile: Callable[[str], None] = lambda _: None,
    ) -> list[str]:
        """Run `change` with kills until `is_done`, and return the steps.

        `meanwhile` is called for each step after the operator was killed there, while no operator runs.
        """
        killer = OperatorKiller(self._operator, self._world.proxy, self._world.served, self._known, twice=TWICE)
        with killer:
            change()
            killer.run_until(is_done, meanwhile, quiet_s=QUIET_S, timeout_s=TIMEOUT_S)
        log.info("killed %d times: %s", len(killer.killed), killer.killed)
        return [step for _, step in killer.killed]

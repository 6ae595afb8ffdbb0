"""Pure: a pod's status as written to the API server."""

from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PodView:
    """The state of a pod that its status is made of; `address` is empty until it is reported."""

    address: str
    init_statuses: list[Json]
    container_statuses: list[Json]
    gates: list[str]
    conditions: list[Json]
    """The stored conditions: other controllers set readiness gates, and a transition time stays while its status stays.
    """
    sidecar_statuses: list[Json] = field(default_factory=list)
    """A pod is ready only while its sidecars run, too."""
    exit_codes: tuple[int | None, ...] = ()
    """Exit codes of containers that are not started again; None for the others."""


def pod_status(view: PodView, now: str) -> Json:
    inits_done = all(status["state"].get("running") is None and status["ready"] for status in view.init_statuses)
    sidecars_ready = all(status["ready"] for status in view.sidecar_statuses)
    initialized = not view.init_statuses or inits_done or any(s["started"] for s in view.container_statuses)
    containers_ready = (
        bool(view.container_statuses) and sidecars_ready and all(status["ready"] for status in view.container_statuses)
    )
    started = any(_has_run(status) for status in view.container_statuses)
    stored = {condition["type"]: condition for condition in view.conditions}
    gates_open = all(stored.get(gate, {}).get("status") == "True" for gate in view.gates)
    states = {
        "PodScheduled": True,
        "Initialized": initialized,
        "ContainersReady": containers_ready,
        "Ready": containers_ready and gates_open,
    }
    return {
        "phase": _phase(view.exit_codes, started=started),
        **({"podIP": view.address, "podIPs": [{"ip": view.address}]} if view.address else {}),
        "hostIP": "127.0.0.1",
        "containerStatuses": view.container_statuses,
        "initContainerStatuses": view.init_statuses + view.sidecar_statuses,
        "conditions": [_condition(kind, state, stored.get(kind), now) for kind, state in states.items()],
    }


def _phase(exit_codes: tuple[int | None, ...], *, started: bool) -> str:
    if exit_codes and None not in exit_codes:
        return "Failed" if any(exit_codes) else "Succeeded"
    return "Running" if started else "Pending"


def _has_run(status: Json) -> bool:
    """Whether a container has run: a pod stays Running while its containers restart."""
    return "waiting" not in status["state"] or bool(status.get("lastState"))


def _condition(kind: str, state: bool, stored: Json | None, now: str) -> Json:
    status = "True" if state else "False"
    since = stored["lastTransitionTime"] if stored and stored["status"] == status else now
    return {"type": kind, "status": status, "lastTransitionTime": since}

"""Whether one process is ready for its clients, and the problems that it knows, for /readyz. Pure."""

from broker_runtime.http_listener import Readiness
from broker_runtime.node.node_parts import NodeParts


def readiness(parts: NodeParts) -> Readiness:
    """Return whether the process is ready, why not, and its problems."""
    broker = parts.broker
    notes = (
        []
        if broker is None
        else [
            *broker.limits.problems,
            *broker.listeners.problems,
            *broker.replicas.offline_notes(),
            *broker.replicas.repairs.notes(),
            *broker.groups.notes(),
            *broker.transactions.notes(),
        ]
    )
    log_dir = parts.log_dir_health
    if log_dir is not None and log_dir.failure is not None:
        notes.insert(0, log_dir.failure)
    return Readiness(_why_not_ready(parts), tuple(notes))


def _why_not_ready(parts: NodeParts) -> str | None:
    controller = parts.controller
    if parts.stopping:
        return "stopping"
    if parts.settings.is_controller and (controller is None or not controller.ready):
        return "the controller is starting"
    if parts.settings.is_broker:
        # The broker's clients do not depend on whether the controller beside it could take over.
        return _why_not_serving(parts)
    return None if controller is None else controller.controller.why_not_ready()


def _why_not_serving(parts: NodeParts) -> str | None:
    membership, broker = parts.membership, parts.broker
    if membership is None or broker is None:
        return "starting"
    if not broker.open and broker.observers.loading:
        return "its observers are being loaded"
    reason = membership.status.why_not_ready()
    return "opening its replicas" if reason is None and not broker.open else reason

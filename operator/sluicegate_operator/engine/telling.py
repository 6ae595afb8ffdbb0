"""Events that several kinds have."""

from sluicegate_operator.api.metadata import Resource, Status
from sluicegate_operator.engine.context import ReconcileContext
from sluicegate_operator.planning.conditions import STALLED
from sluicegate_operator.planning.unreadable import UNREADABLE


async def say_stalled(context: ReconcileContext, resource: Resource, status: Status) -> None:
    """A Warning when its new `status` says that a person is needed, and its old one did not. What cannot be read is
    told by say_unreadable."""
    old: Status = resource.status
    before, after = old.condition(STALLED), status.condition(STALLED)
    if after is None or after.status != "True" or after.reason == UNREADABLE:
        return
    if before is None or (before.status, before.reason) != (after.status, after.reason):
        await context.post(resource, "Warning", after.reason, after.message)

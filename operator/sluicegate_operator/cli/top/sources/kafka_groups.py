"""Asks the coordinators of one cluster for its groups. A coordinator that does not answer hides only its own groups."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sluicegate_operator.cli.groups.group_questions import reports
from sluicegate_operator.cli.groups.group_report import GroupReport
from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.kafka_admin.consumer_groups import ConsumerGroups
from sluicegate_operator.kafka_admin.errors import KafkaAdminError

PATIENCE_S = 2.0
"""Seconds for which a coordinator that moves is waited for."""
DEADLINE_S = 8.0
"""Seconds for all groups together."""
GROUPS_MAX = 200
ASKED_AT_A_TIME = 16


@dataclass(frozen=True, slots=True)
class FoundGroups:
    """The first groups by name.

    `left_out`: number of groups that were not asked for. `note`: sentence about groups without an answer, or empty.
    """

    groups: tuple[GroupReport, ...] = ()
    left_out: int = 0
    note: str = ""


async def ask_groups(admin: AdminClient, cluster: str) -> FoundGroups:
    """Return the groups whose coordinators answer in time, and a note about the others."""
    asked = ConsumerGroups(admin, PATIENCE_S)
    found: dict[str, GroupReport | None] = {}
    failures: dict[str, str] = {}
    names: Sequence[str] = ()
    try:
        async with asyncio.timeout(DEADLINE_S):
            names = [group.id for group in await asked.all()]
            slots = asyncio.Semaphore(ASKED_AT_A_TIME)

            async def ask(name: str) -> None:
                async with slots:
                    try:
                        found.update(await reports(asked, [name]))
                    except KafkaAdminError as error:
                        failures[name] = str(error)

            await asyncio.gather(*(ask(name) for name in names[:GROUPS_MAX]))
    except (KafkaAdminError, TimeoutError) as error:
        reason = str(error) or f"no answer within {DEADLINE_S:g} s"
        if not names:
            return FoundGroups(note=f"groups of {cluster} are not known: {reason}")
        failures |= {name: reason for name in names[:GROUPS_MAX] if name not in found and name not in failures}
    shown = (found.get(name) for name in names[:GROUPS_MAX])
    return FoundGroups(
        tuple(one for one in shown if one is not None), max(0, len(names) - GROUPS_MAX), _note(cluster, failures)
    )


def _note(cluster: str, failures: Mapping[str, str]) -> str:
    """Return a sentence about groups without an answer, with the reason for the first of them."""
    if not failures:
        return ""
    name, why = min(failures.items())
    which = f"group {name} of {cluster} is" if len(failures) == 1 else f"{len(failures)} groups of {cluster} are"
    return f"{which} not known: {why}"

"""Remove what was set for deleted KafkaUsers: a finalizer keeps the object until brokers have removed it.

No object waits forever: without its BrokerCluster, or after a deadline, it is released with an Event.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from sluicegate_operator.api.models.kafka_user import FINALIZER, KafkaUser
from sluicegate_operator.engine.context.context import EventType, ReconcileContext, reference
from sluicegate_operator.engine.context.snapshot import ClusterKey, LeavingUser
from sluicegate_operator.fleet.kafka.asking import BrokerPool, NoBrokerError
from sluicegate_operator.fleet.kafka.users import remove_user
from sluicegate_operator.kafka_admin.errors import KafkaAdminError
from sluicegate_operator.kube.client.one_by_one import Refusals
from sluicegate_operator.kube.http.errors import KubeError, refusal
from sluicegate_operator.planning.users.users import SetForUser

log = logging.getLogger(__name__)


class LeavingUsers:
    """The finalizers of KafkaUsers.

    They stay until brokers have no credentials, ACLs and quotas of the users.
    """

    def __init__(self, context: ReconcileContext, deletion_s: float) -> None:
        self._context = context
        self._deletion_s = deletion_s
        self._since_s: dict[ClusterKey, dict[str, float]] = {}
        """Time of the first failed try, by uid."""

    async def set_finalizer(self, user: KafkaUser) -> None:
        """Set the finalizer before anything of the user is set on brokers."""
        if FINALIZER not in user.metadata.finalizers:
            await self._context.set_finalizers(reference(user), [*user.metadata.finalizers, FINALIZER])

    async def part(
        self,
        key: ClusterKey,
        pool: BrokerPool | None,
        leaving: tuple[LeavingUser, ...],
        refusals: Refusals,
        *,
        is_gone: bool,
    ) -> bool:
        """Remove the users of deleted KafkaUsers from the brokers. Return whether none of them waits.

        `is_gone`: there is no BrokerCluster of that name.
        """
        now_s, waiting = asyncio.get_running_loop().time(), {}
        tried = self._since_s.get(key, {})
        for one in leaving:
            since_s = tried.get(one.uid, now_s)
            overdue = now_s - since_s >= self._deletion_s
            problem: str | None = None
            with refusals.kept():
                problem = await refusal(self._part_with(pool, one, is_gone=is_gone, overdue=overdue))
            if problem and self._context.is_news(problem, "leaving", one.uid):
                log.warning("KafkaUser %s cannot be released yet: %s", one.name, problem)
            if problem != "":
                waiting[one.uid] = since_s
        self._since_s[key] = waiting
        if not waiting:
            del self._since_s[key]
        return not waiting

    async def _part_with(self, pool: BrokerPool | None, one: LeavingUser, *, is_gone: bool, overdue: bool) -> str:
        """Return why the KafkaUser still waits; empty after it was released."""
        if is_gone:
            await self._let_go(
                one.body, "Normal", "UserKept", "the BrokerCluster does not exist any more, or is being deleted"
            )
            return ""
        problem = await self._removed(pool, one)
        if not problem:
            return ""
        if overdue:
            message = (
                f"the user's ACLs, quotas and password stay on the brokers, because they could not be removed within"
                f" {self._deletion_s:g} s ({problem}); remove them with Kafka's tools"
            )
            await self._let_go(one.body, "Warning", "UserLeftBehind", message)
            return ""
        return problem

    async def _removed(self, pool: BrokerPool | None, one: LeavingUser) -> str:
        if one.user is None:
            return f"the KafkaUser cannot be read: {one.why}"
        if SetForUser.of(one.user):
            if pool is None:
                return "no broker has an address yet"
            try:
                await remove_user(pool, one.user)
            except (KafkaAdminError, NoBrokerError) as error:
                return str(error)
        message = f"the ACLs, quotas and the password that were set for user {one.user.user_name} are removed"
        await self._let_go(one.body, "Normal", "UserRemoved", message)
        return ""

    async def _let_go(self, body: Mapping[str, Any], type_: EventType, reason: str, message: str) -> None:
        await self._context.events.record(body, type_, reason, message)
        left = [found for found in body["metadata"]["finalizers"] if found != FINALIZER]
        try:
            await self._context.set_finalizers(body, left)
        except KubeError as error:
            if error.status != 404:
                raise

"""Reconcile the KafkaUsers of one cluster through the admin protocol: passwords, ACLs and quotas."""

import asyncio
import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kafka_bytes.sasl.scram import ITERATIONS_MIN
from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.kafka_user import KafkaUser, KafkaUserStatus
from sluicegate_operator.engine.context.context import REMEMBERED_FIELDS, UserContext, now
from sluicegate_operator.engine.context.snapshot import ClusterKey
from sluicegate_operator.engine.lasting_refusals import LastingRefusals
from sluicegate_operator.engine.telling import report_stalled, write_one_of_many
from sluicegate_operator.engine.users.leaving_users import LeavingUsers
from sluicegate_operator.engine.users.passwords import PasswordError, password_of
from sluicegate_operator.engine.work_queue import Again, Retry, unless_refused
from sluicegate_operator.fleet.kafka.asking import BrokerPool, NoBrokerError
from sluicegate_operator.fleet.kafka.users import MECHANISM, apply_user, observe_users
from sluicegate_operator.kafka_admin.errors import KafkaAdminError, UnsupportedApiError, is_refusal
from sluicegate_operator.kafka_admin.security.scram import new_credential
from sluicegate_operator.kube.client.one_by_one import Refusals
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import KAFKA_USER
from sluicegate_operator.planning.status.conditions import NOT_APPLIED, not_applied_words
from sluicegate_operator.planning.status.paused import paused_status
from sluicegate_operator.planning.users.user_status import UserTrouble, user_status
from sluicegate_operator.planning.users.users import (
    ObservedUser,
    SetForUser,
    after_refusal,
    judge_users,
    plan_user,
    unmanaged,
    with_hosts_of_brokers,
)

log = logging.getLogger(__name__)

WAITING_RETRY = Retry(2.0, 10.0)
_SALT_BYTES = 24
_NO_AUTHORIZER = (
    "the brokers have no authorizer, so ACLs have no effect and cannot be set: configure one (authorizer.class.name),"
    " or remove authorization"
)


class UserReconciler:
    """Keeps users equal to their KafkaUser objects, and reports the result in their status."""

    def __init__(self, context: UserContext, *, deletion_s: float) -> None:
        """Create the reconciler. `deletion_s`: seconds after which a failing removal is given up."""
        self._context = context
        self._leaving = LeavingUsers(context, deletion_s)
        self._refusals = LastingRefusals()

    async def reconcile(self, key: ClusterKey) -> Again:
        context = self._context
        snapshot, refusals = await context.gather(key, [KAFKA_USER]), Refusals()
        await context.report_unreadable(snapshot.unreadable_of(KAFKA_USER), refusals)
        cluster, users, leaving = snapshot.cluster, snapshot.users, snapshot.leaving_users
        verdicts = judge_users(cluster, users)
        if cluster is None:
            parted = await self._leaving.part(key, None, leaving, refusals, is_gone=True)
            for user in users:
                await self._write(
                    user, user_status(user, now(), UserTrouble(*verdicts[user.name], stuck=True)), refusals
                )
            return unless_refused(refusals, None if parted else WAITING_RETRY)
        if cluster.spec.paused:
            for user in users:
                await self._write(user, paused_status(user, user.status, now()), refusals)
            return unless_refused(refusals, context.resync_s(cluster))
        if not (users or leaving):
            return unless_refused(refusals, context.resync_s(cluster))
        pool = await context.pool(cluster)
        settled = await self._leaving.part(key, pool, leaving, refusals, is_gone=False)
        seen = await _seen(pool, [user for user in users if user.name not in verdicts])
        for user in users:
            if user.name in verdicts:
                await self._write(
                    user, user_status(user, now(), UserTrouble(*verdicts[user.name], stuck=True)), refusals
                )
                continue
            with refusals.kept():
                settled = await self._reconcile_one(cluster, pool, user, seen, refusals) and settled
        return unless_refused(refusals, context.resync_s(cluster) if settled else WAITING_RETRY)

    async def _reconcile_one(
        self, cluster: BrokerCluster, pool: BrokerPool | None, user: KafkaUser, seen: "_Seen", refusals: Refusals
    ) -> bool:
        """Return whether nothing is left to retry soon. Raises KubeError for a refusal that has not lasted."""
        others = 0
        try:
            await self._leaving.set_finalizer(user)
            spelled = with_hosts_of_brokers(user, external=cluster.spec.is_external)
            trouble, others = await self._enforced(pool, spelled, seen)
            self._refusals.ended(cluster.metadata.uid)
        except KubeError as error:
            if self._refusals.may_pass(cluster.metadata.uid, error):
                raise
            words = f"the object or its Secret cannot be written: {error}"
            trouble = UserTrouble("Refused", words, stuck=True)
            if error.retriable:
                trouble = UserTrouble(NOT_APPLIED, not_applied_words(words))
        await self._write(user, user_status(user, now(), trouble, others), refusals)
        return trouble is None or trouble.stuck

    async def _enforced(
        self, pool: BrokerPool | None, user: KafkaUser, seen: "_Seen"
    ) -> tuple[UserTrouble | None, int]:
        """Bring the user to its KafkaUser. Return why it differs, and the number of ACLs of other clients."""
        try:
            password, version = await password_of(self._context, user)
        except PasswordError as error:
            return error.trouble, 0
        if pool is None:
            return UserTrouble("WaitingForBrokers", "no broker has an address yet"), 0
        try:
            observed = seen.users.get(user.name) or (await observe_users(pool, [user]))[user.name]
            return await self._applied(pool, user, observed, password, version)
        except (NoBrokerError, KafkaAdminError) as error:
            return _trouble(error), 0

    async def _applied(
        self, pool: BrokerPool, user: KafkaUser, observed: ObservedUser, password: str, version: str
    ) -> tuple[UserTrouble | None, int]:
        if observed.unauthorized and user.spec.authorization is not None:
            return UserTrouble("NoAuthorizer", _NO_AUTHORIZER, stuck=True), 0
        plan = plan_user(user, observed, version)
        await self._remember(user, SetForUser.of(user), plan.remembered)
        credential = None
        if plan.set_credential:
            salt = secrets.token_bytes(_SALT_BYTES)
            credential = await asyncio.to_thread(new_credential, MECHANISM, password, salt, ITERATIONS_MIN)
        try:
            await apply_user(pool, user, plan, credential)
        except KafkaAdminError as error:
            if is_refusal(error):
                left = (await observe_users(pool, [user]))[user.name]
                await self._remember(user, plan.remembered, after_refusal(user, plan, left))
            raise
        await self._remember(user, plan.remembered, plan.settled)
        if plan.changes:
            await self._context.post(user, "Normal", "Changed", f"user {user.user_name}: {plan.changes}")
        return None, len(unmanaged(user, observed))

    async def _remember(self, user: KafkaUser, before: SetForUser, after: SetForUser) -> None:
        if before != after:
            await self._context.remember(user, after.fields())

    async def _write(self, user: KafkaUser, status: KafkaUserStatus, refusals: Refusals) -> None:
        if await write_one_of_many(self._context, user, status, refusals, without=REMEMBERED_FIELDS):
            await report_stalled(self._context, user, status)


@dataclass(frozen=True, slots=True)
class _Seen:
    """Users that were read together, by metadata.name. Others are read one by one, and errors go into their status."""

    users: Mapping[str, ObservedUser] = field(default_factory=dict)


async def _seen(pool: BrokerPool | None, users: Sequence[KafkaUser]) -> _Seen:
    if pool is None or len(users) < 2:
        return _Seen()
    try:
        return _Seen(await observe_users(pool, users))
    except (NoBrokerError, KafkaAdminError) as error:
        log.debug("users are read one by one: %s", error)
        return _Seen()


def _trouble(error: NoBrokerError | KafkaAdminError) -> UserTrouble:
    if isinstance(error, NoBrokerError):
        return UserTrouble("WaitingForBrokers", str(error))
    if isinstance(error, UnsupportedApiError):
        return UserTrouble("Unsupported", f"the brokers do not serve what the KafkaUser needs: {error}", stuck=True)
    refused = is_refusal(error)
    return UserTrouble("Refused" if refused else "Failed", str(error), stuck=refused)

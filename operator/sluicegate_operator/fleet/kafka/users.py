"""Users on the brokers: read one, and change what differs. planning.users decides what differs."""

from sluicegate_operator.api.models.kafka_user import KafkaUser
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.kafka.asking import BrokerPool
from sluicegate_operator.kafka_admin.client import BrokerHandle
from sluicegate_operator.kafka_admin.errors import KafkaApiError
from sluicegate_operator.kafka_admin.security.scram import ScramCredential, ScramMechanism
from sluicegate_operator.planning.users.acl_rules import AclRule
from sluicegate_operator.planning.users.users import ObservedUser, SetForUser, UserPlan, principal, user_entity

SECURITY_DISABLED = "SECURITY_DISABLED"
MECHANISM = ScramMechanism.SCRAM_SHA_512


async def observe_user(pool: BrokerPool, user: KafkaUser) -> ObservedUser:
    """Return the parts that the KafkaUser specifies, or has set before. Raises KafkaAdminError and NoBrokerError."""
    own, spec = SetForUser.of(user), user.spec

    async def read(_: BrokerAddress, handle: BrokerHandle) -> ObservedUser:
        has_credential = rules = quotas = None
        unauthorized = ""
        if spec.authentication is not None or own.credential:
            has_credential = MECHANISM in await handle.describe_scram(user.user_name)
        if spec.authorization is not None or own.rules:
            try:
                rules = await handle.describe_acls(principal(user))
            except KafkaApiError as error:
                if error.name != SECURITY_DISABLED:
                    raise
                rules, unauthorized = frozenset[AclRule](), str(error)
        if spec.quotas is not None or own.quotas:
            found = await handle.describe_quotas_of(user_entity(user))
            quotas = {key: value for (_entity, key), value in found.items()}
        return ObservedUser(has_credential, rules, quotas, unauthorized)

    return await pool.ask_any(read)


async def apply_user(pool: BrokerPool, user: KafkaUser, plan: UserPlan, credential: ScramCredential | None) -> None:
    """Send the changes, new ACLs before old ones are removed. Raises KafkaAdminError and NoBrokerError.

    Each request has its own timeout, and may be repeated with the same result.
    """

    if plan.create:
        _raise_first(await pool.ask_any(lambda _, handle: handle.create_acls(plan.create)))
    if plan.delete:
        _raise_first(await pool.ask_any(lambda _, handle: handle.delete_acls(plan.delete)))
    if plan.quotas:
        values = {(user_entity(user), key): value for key, value in plan.quotas.items()}
        for error in (await pool.ask_any(lambda _, handle: handle.alter_quotas(values))).values():
            raise error
    if plan.set_credential and credential is not None:
        await pool.ask_any(lambda _, handle: handle.upsert_scram(user.user_name, credential))
    if plan.delete_credential:
        await pool.ask_any(lambda _, handle: handle.delete_scram(user.user_name, MECHANISM))


def _raise_first(refused: dict[AclRule, KafkaApiError]) -> None:
    for _, error in sorted(refused.items()):
        raise error


async def remove_user(pool: BrokerPool, user: KafkaUser) -> None:
    """Remove what was set for the KafkaUser, and nothing else. Raises KafkaAdminError and NoBrokerError."""
    own = SetForUser.of(user)
    plan = UserPlan(delete=own.rules, quotas=dict.fromkeys(own.quotas), delete_credential=bool(own.credential))
    try:
        await apply_user(pool, user, plan, None)
    except KafkaApiError as error:
        if error.name != SECURITY_DISABLED:
            raise
        # Without an authorizer there are no ACLs to remove.
        await apply_user(pool, user, UserPlan(quotas=plan.quotas, delete_credential=plan.delete_credential), None)

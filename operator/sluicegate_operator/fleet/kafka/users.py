"""Users on the brokers: read them, and change what differs. planning.users decides what differs."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from sluicegate_operator.api.models.kafka_user import KafkaUser
from sluicegate_operator.fleet.kafka.asking import BrokerPool, Question
from sluicegate_operator.kafka_admin.errors import KafkaApiError
from sluicegate_operator.kafka_admin.security.scram import ScramCredential, ScramMechanism
from sluicegate_operator.planning.limits.limits import Entity, QuotaKey
from sluicegate_operator.planning.users.acl_rules import AclRule
from sluicegate_operator.planning.users.users import ObservedUser, SetForUser, UserPlan, principal, user_entity

SECURITY_DISABLED = "SECURITY_DISABLED"
MECHANISM = ScramMechanism.SCRAM_SHA_512
ONE_BY_ONE = 5
"""Maximum number of users whose ACLs and quotas are read separately.

With more, the ACLs and quotas of all users are read, including unmanaged users.
"""


async def observe_users(pool: BrokerPool, users: Sequence[KafkaUser]) -> dict[str, ObservedUser]:
    """Return the state of each user by metadata.name.

    The state has the parts that the KafkaUser specifies, or has set before. More than ONE_BY_ONE users are read with
    three requests. Raises KafkaAdminError and NoBrokerError.
    """
    own = {user.name: SetForUser.of(user) for user in users}
    with_password = [user for user in users if user.spec.authentication is not None or own[user.name].credential]
    with_rules = [user for user in users if user.spec.authorization is not None or own[user.name].rules]
    with_quotas = [user for user in users if user.spec.quotas is not None or own[user.name].quotas]
    passwords = await _passwords(pool, with_password)
    rules, unauthorized = await _rules(pool, with_rules)
    quotas = await _quotas(pool, with_quotas)
    return {
        user.name: ObservedUser(passwords.get(user.name), rules.get(user.name), quotas.get(user.name), unauthorized)
        for user in users
    }


async def _passwords(pool: BrokerPool, users: Sequence[KafkaUser]) -> dict[str, bool]:
    if not users:
        return {}
    names = [user.user_name for user in users]
    found = await pool.ask_any(lambda _, handle: handle.describe_scram(names))
    return {user.name: MECHANISM in found.get(user.user_name, {}) for user in users}


async def _rules(pool: BrokerPool, users: Sequence[KafkaUser]) -> tuple[dict[str, frozenset[AclRule]], str]:
    """Return the rules by metadata.name, and why there are none if the brokers have no authorizer."""
    by_principal: defaultdict[str, set[AclRule]] = defaultdict(set)
    principals = [None] if len(users) > ONE_BY_ONE else [principal(user) for user in users]
    for one in principals:
        try:
            for rule in await pool.ask_any(_describe_acls(one)):
                by_principal[rule.principal].add(rule)
        except KafkaApiError as error:
            if error.name != SECURITY_DISABLED:
                raise
            return {user.name: frozenset() for user in users}, str(error)
    return {user.name: frozenset(by_principal[principal(user)]) for user in users}, ""


def _describe_acls(of: str | None) -> Question[frozenset[AclRule]]:
    return lambda _, handle: handle.describe_acls(of)


async def _quotas(pool: BrokerPool, users: Sequence[KafkaUser]) -> dict[str, dict[str, float]]:
    found: dict[QuotaKey, float] = {}
    if len(users) > ONE_BY_ONE:
        found |= await pool.ask_any(lambda _, handle: handle.describe_quotas("user"))
    else:
        for user in users:
            found |= await pool.ask_any(_describe_quotas(user_entity(user)))
    by_entity: defaultdict[Entity, dict[str, float]] = defaultdict(dict)
    for (entity, key), value in found.items():
        by_entity[entity][key] = value
    return {user.name: by_entity[user_entity(user)] for user in users}


def _describe_quotas(of: Entity) -> Question[Mapping[QuotaKey, float]]:
    return lambda _, handle: handle.describe_quotas_of(of)


async def apply_user(pool: BrokerPool, user: KafkaUser, plan: UserPlan, credential: ScramCredential | None) -> None:
    """Send the changes of a KafkaUser to the brokers. New ACLs are added before old ones are removed.

    Raises KafkaAdminError and NoBrokerError. Each request has its own timeout, and may be repeated with the same
    result.
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
    """Remove everything that was set for the KafkaUser. Raises KafkaAdminError and NoBrokerError."""
    own = SetForUser.of(user)
    plan = UserPlan(delete=own.rules, quotas=dict.fromkeys(own.quotas), delete_credential=bool(own.credential))
    try:
        await apply_user(pool, user, plan, None)
    except KafkaApiError as error:
        if error.name != SECURITY_DISABLED:
            raise
        # Without an authorizer there are no ACLs to remove.
        await apply_user(pool, user, UserPlan(quotas=plan.quotas, delete_credential=plan.delete_credential), None)

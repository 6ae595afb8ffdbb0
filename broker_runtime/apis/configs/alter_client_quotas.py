"""AlterClientQuotas (49), versions 0 to 1 (KIP-546, KIP-612), with one result for each entity."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from broker_runtime.apis.request.access import denied
from broker_runtime.apis.request.call import Call
from broker_runtime.apis.request.context import ApiSpec, ControllerContext
from broker_runtime.config import BrokerConfig
from broker_runtime.controller.capacity import RECORDS_MAX, QuotaCapacity, QuotaLimits, check_records
from broker_runtime.controller.clients.client_quotas import EntityParts, QuotaChange, alter_quotas, hosts_to_resolve
from broker_runtime.controller.clients.connection_groups import GroupCapacity, GroupLimits
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.slicing.steps import Steps, drain, each
from broker_runtime.wire.messages import Fields
from broker_runtime.wire.requests import AlterClientQuotasRequest, EntryData
from broker_runtime.wire.versions import ALTER_CLIENT_QUOTAS

_HOSTS_MAX = 100
"""Host names that one request may contain, because each causes a DNS query."""
_ENTITY_PARTS_MAX = 10
"""Maximum number of parts of an entity. There are four types of parts."""
_OPS_MAX = 100
"""Maximum number of changes of one entity. No entity has this many keys."""


async def handle(request: AlterClientQuotasRequest, call: Call, context: ControllerContext) -> Fields | Steps[Fields]:
    access = call.access
    if access is not None and not access.cluster():
        return _refused(request, denied(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    hosts = await call.completion.slices.finish(_hosts(request))
    try:
        if len(hosts) > _HOSTS_MAX:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"One request may name at most {_HOSTS_MAX} hosts that are not IP addresses."
            )
        resolved = await context.resolve_hosts(hosts)
        limits = _Limits.of(context.settings.config)
        return {"entries": await context.controller.submit(lambda image: _alter_all(request, resolved, limits, image))}
    except KafkaError as error:
        return _refused(request, error)


def _refused(request: AlterClientQuotasRequest, error: KafkaError) -> Steps[Fields]:
    return {"entries": (yield from each(request.entries, lambda entry: _answer(entry, error)))}


def _hosts(request: AlterClientQuotasRequest) -> Steps[list[str]]:
    """Host names of the request that must be resolved. Stops after the limit is exceeded."""
    found: set[str] = set()
    for entry in request.entries:
        if len(entry.entity) <= _ENTITY_PARTS_MAX:
            found |= hosts_to_resolve([_parts(entry)])
        if len(found) > _HOSTS_MAX:
            break
        yield
    return sorted(found)


class _Limits(NamedTuple):
    groups: GroupLimits
    quotas: QuotaLimits

    @classmethod
    def of(cls, config: BrokerConfig) -> "_Limits":
        groups = GroupLimits(
            config.sluicegate_connection_groups_max,
            config.sluicegate_connection_groups_members_max,
            config.sluicegate_connection_group_members_max,
            config.sluicegate_connection_groups_cluster_max,
        )
        return cls(
            groups, QuotaLimits(config.sluicegate_client_quotas_max, config.sluicegate_client_quotas_names_bytes_max)
        )


def _alter_all(
    request: AlterClientQuotasRequest, resolved: Collection[str], limits: _Limits, image: MetadataImage
) -> Steps[tuple[Sequence[MetadataRecord], Sequence[Fields]]]:
    groups, quotas = GroupCapacity(image.connection_groups, limits.groups), QuotaCapacity(image.quotas, limits.quotas)
    records: list[MetadataRecord] = []
    answers = []
    seen = set()
    for entry in request.entries:
        try:
            _check_counts(entry)
            parts = _parts(entry)
            entity = frozenset(dict(parts).items())
            changes = [QuotaChange(op.key, None if op.remove else op.value) for op in entry.ops]
            if entity in seen:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each quota entity must appear at most once.")
            seen.add(entity)
            altered = alter_quotas(parts, changes, image, resolved)
            groups.take(altered)
            quotas.take(altered)
            records += altered
        except KafkaError as error:
            answers.append(_answer(entry, error))
        else:
            answers.append(_answer(entry, None))
        if len(records) > RECORDS_MAX:
            # The request is refused. Freeing more records at once would take long.
            break
        yield
    yield from drain(seen)
    check_records(len(records))
    return ((), answers) if request.validate_only else (records, answers)


def _check_counts(entry: EntryData) -> None:
    """Check the number of parts and changes of an entity. Raises KafkaError."""
    if len(entry.entity) > _ENTITY_PARTS_MAX or len(entry.ops) > _OPS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"An entity has at most {_ENTITY_PARTS_MAX} parts, and one entry at most {_OPS_MAX} changes.",
        )


def _parts(entry: EntryData) -> EntityParts:
    return [(part.entity_type, part.entity_name) for part in entry.entity]


def _answer(entry: EntryData, error: KafkaError | None) -> Fields:
    return {
        "error_code": ErrorCode.NONE if error is None else error.code,
        "error_message": None if error is None else error.message,
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in _shown(entry).items()],
    }


def _shown(entry: EntryData) -> dict[str, str | None]:
    return {part.entity_type: part.entity_name for part in entry.entity[:_ENTITY_PARTS_MAX]}


def _names_hosts(request: AlterClientQuotasRequest) -> Steps[bool]:
    return bool((yield from _hosts(request)))


API = ApiSpec(
    key=ALTER_CLIENT_QUOTAS,
    name="AlterClientQuotas",
    versions=(0, 1),
    handle=handle,
    slow=_names_hosts,
)

"""Describe- and AlterClientQuotas (KIP-546) for the entity `ip` with its one key `connection_creation_rate` (KIP-612).

Other entities (user, client-id) are never asked for and never touched.
"""

from collections.abc import Mapping

from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kio.schema.alter_client_quotas.v1.response import AlterClientQuotasResponse
from kio.schema.describe_client_quotas.v1.request import ComponentData, DescribeClientQuotasRequest
from kio.schema.describe_client_quotas.v1.response import DescribeClientQuotasResponse
from kio.static.primitive import f64, i8

from sluicegate_operator.kafka_admin.errors import check
from sluicegate_operator.kafka_admin.exchange import Exchange

IP = "ip"
CONNECTION_CREATION_RATE = "connection_creation_rate"
MATCH_ANY_NAME = i8(2)


def describe_ip() -> Exchange[DescribeClientQuotasResponse, dict[str | None, float]]:
    component = ComponentData(entity_type=IP, match_type=MATCH_ANY_NAME, match=None)
    request = DescribeClientQuotasRequest(components=(component,), strict=True)
    return Exchange(request, DescribeClientQuotasResponse, _read_rates)


def _read_rates(reply: DescribeClientQuotasResponse) -> dict[str | None, float]:
    check(reply.error_code, reply.error_message, "describing the ip quotas")
    rates: dict[str | None, float] = {}
    for entry in reply.entries or ():
        names = [entity.entity_name for entity in entry.entity if entity.entity_type == IP]
        values = [value.value for value in entry.values if value.key == CONNECTION_CREATION_RATE]
        if len(names) == 1 and values:
            rates[names[0]] = float(values[0])
    return rates


def alter_ip(rates: Mapping[str | None, float | None]) -> Exchange[AlterClientQuotasResponse, None]:
    entries = tuple(_entry(address, rate) for address, rate in rates.items())
    request = AlterClientQuotasRequest(entries=entries, validate_only=False)
    return Exchange(request, AlterClientQuotasResponse, _read_altered)


def _entry(address: str | None, rate: float | None) -> EntryData:
    op = OpData(key=CONNECTION_CREATION_RATE, value=f64(rate or 0.0), remove=rate is None)
    return EntryData(entity=(EntityData(entity_type=IP, entity_name=address),), ops=(op,))


def _read_altered(reply: AlterClientQuotasResponse) -> None:
    for entry in reply.entries:
        names = ", ".join(entity.entity_name or "all addresses" for entity in entry.entity)
        check(entry.error_code, entry.error_message, f"altering the ip quota of {names}")

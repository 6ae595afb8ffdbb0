"""The rows of changes of addresses, connection groups, listeners, and of rates that move. Pure."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from connection_limits import keys
from connection_limits.groups.connection_group import AddressGroupLimits
from connection_limits.recorded.rows import (
    LISTENER,
    MEMBER,
    LimitEvent,
    LimitPlace,
    LimitRow,
    RateKind,
    group_entity,
    ip_entity,
    quota_of_group,
)
from connection_limits.recorded.settings_rows import row_of
from connection_limits.settings import UNLIMITED

if TYPE_CHECKING:
    from connection_limits.cluster_rates import MovedShare

COUNTED: Final = LimitRow(LimitEvent.COUNTED, None, None)

Member = tuple[str, float | None]
"""An address or a range, and the number of its holder; None if it leaves the group."""


def changed_ip_rate(ip: str | None, rate: int | None) -> list[LimitRow]:
    """Return the row of a rate of an address, of all addresses for None as `ip`; None as `rate` removes it."""
    event = LimitEvent.REMOVED if rate is None else LimitEvent.SET
    return [row_of(event, LimitPlace(keys.ENTITY_RATE, ip_entity(ip)), rate)]


def group_rows(event: LimitEvent, name: str, limits: AddressGroupLimits) -> list[LimitRow]:
    """Return all limits of a group."""
    values = (
        (keys.ENTITY_RATE, limits.rate if limits.rate < UNLIMITED else None),
        (keys.ENTITY_COUNT, limits.max_connections if limits.max_connections < UNLIMITED else None),
        (keys.SHARED, int(limits.shared) or None),
        (keys.OBSERVE, int(limits.observe) or None),
        (keys.CLUSTER, int(limits.cluster_wide) or None),
    )
    entity, quota = group_entity(name), quota_of_group(name)
    return [
        LimitRow(event, RateKind.CONFIGURED, key, entity, None, quota, value)
        for key, value in values
        if value is not None
    ]


def changed_group(name: str, limits: AddressGroupLimits) -> list[LimitRow]:
    """Return the rows of a group whose limits have changed: all that it has, or one row if it has none."""
    if limits.limit_something:
        return group_rows(LimitEvent.SET, name, limits)
    return [LimitRow(LimitEvent.REMOVED, RateKind.CONFIGURED, None, group_entity(name), None, quota_of_group(name))]


def member_row(event: LimitEvent, name: str, members: Sequence[Member]) -> LimitRow:
    """Return the row of some members of a group. `value` is their number, `text` has ADDRESS=HOLDER for each."""
    text = " ".join(member if number is None else f"{member}={_shown(number)}" for member, number in members)
    return LimitRow(event, None, MEMBER, group_entity(name), None, quota_of_group(name), len(members), text)


def changed_member(name: str, member: str, number: float | None) -> list[LimitRow]:
    return [member_row(LimitEvent.REMOVED if number is None else LimitEvent.SET, name, [(member, number)])]


def members_in(text: str) -> Iterator[Member]:
    """Yield the members in the text of a row. Raises ValueError for another text."""
    for each in text.split():
        member, has_number, number = each.partition("=")
        yield member, float(number) if has_number else None


def changed_listener(name: str, *, is_open: bool) -> list[LimitRow]:
    return [LimitRow(LimitEvent.OPENED if is_open else LimitEvent.CLOSED, None, LISTENER, listener=name)]


def moved_rate(listener: str | None, rate: int, kind: RateKind, event: LimitEvent = LimitEvent.SET) -> LimitRow:
    """Return the row of a rate that is in force now, and that no user has chosen: of the broker, or of a listener."""
    key = keys.MAX_CONNECTION_CREATION_RATE
    return LimitRow(
        event, kind, key if listener is None else keys.of_listener(listener, key), listener=listener, value=rate
    )


def moved_share(share: "MovedShare", event: LimitEvent = LimitEvent.SET) -> LimitRow:
    """Return the row of a share in a rate of the cluster: of the broker, of a listener or of a connection group.

    `value` is in thousandths of a connection a second, `text` the number of brokers that divide the rate.
    """
    target = share.target
    if target.group is not None:
        place = LimitPlace(keys.ENTITY_RATE, group_entity(target.group))
    else:
        key = keys.MAX_CONNECTION_CREATION_RATE
        place = LimitPlace(key if target.listener is None else keys.of_listener(target.listener, key))
        place = place._replace(listener=target.listener)
    quota = None if target.group is None else quota_of_group(target.group)
    return LimitRow(event, RateKind.SHARE, *place, quota, share.share, str(share.brokers))


def _shown(number: float) -> str:
    return str(int(number)) if number.is_integer() else repr(number)

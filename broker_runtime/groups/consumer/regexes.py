"""Subscriptions by regular expressions: a thread matches all expressions of a group with the topics at once. Pure.

So a change of topics costs a group one rebalance, whatever the number of its members' expressions.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from functools import partial

from broker_runtime.errors import ErrorCode, KafkaError, detached
from broker_runtime.groups.consumer.state.group import ConsumerGroup
from broker_runtime.groups.consumer.state.topics import hash_of, known_topics
from broker_runtime.groups.consumer.target import MemberChange, assign_soon
from broker_runtime.groups.environment import GroupEnvironment, GroupTimer
from broker_runtime.groups.records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    GroupRecord,
)
from broker_runtime.groups.state import GroupsState
from broker_runtime.groups.topic_regex import compile_topic_regex
from broker_runtime.security.acls.topic_filter import TopicFilter
from broker_runtime.slicing.steps import Steps

log = logging.getLogger(__name__)

Found = Mapping[str, tuple[str, ...] | KafkaError]
"""The result of matching expressions: sorted topics by expression, or an error.

An error stands for an expression that matches too many topics, or that is not valid in RE2: another coordinator may
have written it.
"""

_TOO_MANY = ErrorCode.INVALID_REQUEST
_SHOWN = 50
"""Characters of an expression that a message shows."""
REFRESH_MIN_MS = 10_000
"""Minimum time between two refreshes, as in Apache Kafka: topics that are created one by one cost few rebalances."""


class RegexChange(Enum):
    """The effect of a member's request on the expressions of its group."""

    NONE = "the subscription is unchanged"
    UNRESOLVED = "the topics are not known yet: the assignment waits for them"
    RESOLVED = "the topics have changed"


def change_regex(group: ConsumerGroup, change: MemberChange, records: list[GroupRecord]) -> RegexChange:
    """Return the effect of a change of a member's expression. Raises KafkaError (INVALID_REGULAR_EXPRESSION).

    The tombstone of an expression without members is appended to `records`.
    """
    old = None if change.before is None else change.before.regex
    new = None if change.after is None else change.after.regex
    if old == new:
        return RegexChange.NONE
    members = group.subscriptions.regexes
    if new is not None and not members[new]:
        compile_topic_regex(new)
    if old is not None and members[old] == 1:
        records.append(GroupRecord(ConsumerGroupRegularExpressionKey(group.group_id, old), None))
    if new is None or new in group.subscriptions.resolved:
        return RegexChange.RESOLVED
    return RegexChange.UNRESOLVED


def refresh_is_due(group: ConsumerGroup, change: MemberChange | None, environment: GroupEnvironment) -> bool:
    """Return whether the group's expressions must be matched with the topics now, after `change`."""
    wanted = group.subscriptions.regexes if change is None else _wanted(group, change)
    if not wanted or group.resolving:
        return False
    resolved, now_ms = group.subscriptions.resolved, environment.now_ms()
    last_ms = max((value.timestamp_ms for value in resolved.values()), default=-REFRESH_MIN_MS)
    if now_ms <= last_ms + REFRESH_MIN_MS:
        return False
    interval_ms = environment.config.group_consumer_regex_refresh_interval_ms
    return group.regexes_stale or wanted.keys() != resolved.keys() or now_ms > last_ms + interval_ms


def refresh(
    group: ConsumerGroup, change: MemberChange, environment: GroupEnvironment, topic_filter: TopicFilter | None
) -> None:
    """Match the expressions with the current topic names, in a thread.

    As in Apache Kafka, the group gets the topics that the member whose request comes now may describe.
    """
    group.resolving, group.regexes_stale = True, False
    group_id, regexes, names = group.group_id, tuple(_wanted(group, change)), tuple(environment.image.topics)
    version = environment.image.next_offset

    def then(result: Found | Exception) -> GroupTimer:
        return partial(_resolved, environment, group_id, version, result)

    topics_max = environment.config.sluicegate_group_member_topics_max
    may_describe = None if topic_filter is None else topic_filter.now()
    environment.offload(partial(_match, regexes, names, topics_max, may_describe), then)


def _wanted(group: ConsumerGroup, change: MemberChange) -> Counter[str]:
    wanted = group.subscriptions.regexes.copy()
    for member, count in ((change.before, -1), (change.after, 1)):
        if member is not None and member.regex is not None:
            wanted[member.regex] += count
    return +wanted


def _match(
    regexes: Collection[str], names: Collection[str], topics_max: int, may_describe: Callable[[str], bool] | None
) -> Found:
    """Match the expressions. A refused expression does not affect the others of its group."""
    matched: dict[str, tuple[str, ...] | KafkaError] = {}
    if may_describe is not None:
        names = list(filter(may_describe, names))
    for text in regexes:
        try:
            regex = compile_topic_regex(text)
        except KafkaError as error:
            matched[text] = detached(error)
            continue
        found = tuple(sorted(name for name in names if regex.matches(name)))
        matched[text] = found if len(found) <= topics_max else _too_many(text, len(found), topics_max)
    return matched


def _too_many(text: str, topics: int, topics_max: int) -> KafkaError:
    return KafkaError(
        _TOO_MANY,
        f"the expression {text[:_SHOWN]!r} matches {topics} topics; sluicegate.group.member.topics.max allows "
        f"{topics_max}. Use an expression that matches fewer topics, or raise the limit",
    )


def _no_room(text: str, topics: int, topics_max: int) -> KafkaError:
    return KafkaError(
        _TOO_MANY,
        f"the group would have {topics} topics with those that {text[:_SHOWN]!r} and its other expressions match "
        f"now; sluicegate.group.topics.max allows {topics_max}. Use expressions that match fewer topics, or raise "
        "the limit",
    )


def _topics(found: tuple[str, ...] | KafkaError, before: tuple[str, ...]) -> tuple[str, ...]:
    """Return the topics of an expression.

    One that matches too many keeps its previous topics: one more must not remove them.
    """
    if not isinstance(found, KafkaError):
        return found
    return before if found.code is _TOO_MANY else ()


def _log_refused(group: ConsumerGroup, result: Found) -> None:
    refused = {regex: found for regex, found in result.items() if isinstance(found, KafkaError)}
    for regex in refused.keys() - group.refused_regexes:
        error = refused[regex]
        what = "gets no other topics" if error.code is _TOO_MANY else "matches no topics"
        log.warning("a subscription of group %s %s: %s", group.group_id, what, error.message)
    group.refused_regexes = frozenset(refused)


def _resolved(
    environment: GroupEnvironment,
    group_id: str,
    version: int,
    result: Found | Exception,
    state: GroupsState,
) -> Steps[tuple[list[GroupRecord], None]]:
    group = state.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        return [], None
    group.resolving = False
    if isinstance(result, Exception):
        log.error("the topics that match the expressions of group %s could not be computed", group_id, exc_info=result)
        return [], None
    subscriptions, now_ms = group.subscriptions, environment.now_ms()
    before: dict[str, tuple[str, ...]] = {}
    after: dict[str, tuple[str, ...]] = {}
    changed: list[str] = []
    for regex, found in result.items():
        yield
        if not subscriptions.regexes[regex]:
            continue
        known = subscriptions.resolved.get(regex)
        before[regex] = () if known is None else known.topics
        after[regex] = _topics(found, before[regex])
        if before[regex] != after[regex]:
            changed.append(regex)
    names = yield from subscriptions.topics_after([before[one] for one in changed], [after[one] for one in changed])
    topics_max = environment.config.sluicegate_group_topics_max
    if names is not None and len(names) > max(topics_max, len(subscriptions.topics)):
        result = {**result, **{one: _no_room(one, len(names), topics_max) for one in changed}}
        after, changed, names = before, [], None
    _log_refused(group, result)
    records = [
        GroupRecord(
            ConsumerGroupRegularExpressionKey(group_id, regex),
            ConsumerGroupRegularExpressionValue(topics, version, now_ms),
        )
        for regex, topics in after.items()
    ]
    names = subscriptions.topics if names is None else names
    metadata_hash = hash_of((yield from known_topics(names, environment.image, group.topic_facts)))
    if changed or metadata_hash != group.metadata_hash:
        bumped = ConsumerGroupMetadataValue(group.epoch + 1, metadata_hash)
        records.append(GroupRecord(ConsumerGroupMetadataKey(group_id), bumped))
        assign_soon(group, environment)
    return records, None

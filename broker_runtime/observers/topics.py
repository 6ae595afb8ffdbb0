"""Finds the topics that a message names without a view of it, for filters. Pure.

A field is a topic's name or ID if Kafka's schema calls it that. A topic that is named as a resource, as in
DescribeConfigs, does not count.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints
from uuid import UUID

from kio.schema.types import TopicName

from broker_runtime.observers.layout import StructArray, StructLayout, layout_of
from broker_runtime.observers.source import MessageSource, counted
from broker_runtime.wire.encoding.primitives import is_struct, without_none


@dataclass(frozen=True, slots=True)
class TopicFields:
    """The fields of a struct that have names or IDs of topics, by number, and the arrays that contain such fields."""

    layout: StructLayout
    names: frozenset[int]
    inside: Mapping[int, "TopicFields"]

    @property
    def found(self) -> bool:
        return bool(self.names or self.inside)


@cache
def topic_fields(kind: Any) -> TopicFields:
    hints = get_type_hints(kind)
    layout = layout_of(kind)
    names, inside = set(), {}
    for field in fields(kind):
        number = layout.places[field.name].number
        inner, _ = without_none(hints[field.name])
        if get_origin(inner) is tuple:
            inner, _ = without_none(get_args(inner)[0])
        if number < 0:
            continue
        if is_struct(inner) and isinstance(layout.plain[number], StructArray):
            nested = topic_fields(inner)
            if nested.found:
                inside[number] = nested
        elif inner is TopicName or field.name == "topic_id":
            names.add(number)
    return TopicFields(layout, frozenset(names), inside)


def topics_in(found: TopicFields, source: MessageSource, at: int) -> Iterator[str | UUID]:
    """Yield names and IDs of topics, possibly with duplicates.

    Raises ProtocolError if the bytes are not such a message.
    """
    last = max((*found.names, *found.inside), default=-1)
    for number in range(last + 1):
        layout = found.layout.plain[number]
        if number in found.names:
            named = layout.show(source, at)
            yield from (named if isinstance(named, tuple) else () if named is None else (named,))
        elif number in found.inside:
            yield from _in_items(found.inside[number], layout, source, at)
        at = layout.after(source, at, None)


def _in_items(nested: TopicFields, array: StructArray, source: MessageSource, at: int) -> Iterator[str | UUID]:
    count, at = counted(source.bytes(), at, array.flexible, nested.layout.least)
    for _ in range(count):
        yield from topics_in(nested, source, at)
        at = nested.layout.after(source, at)

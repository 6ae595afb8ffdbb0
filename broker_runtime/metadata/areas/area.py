"""One area of the metadata: the protocol that the image uses, and a mapping that only its own area changes. Pure."""

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import ClassVar, Protocol, Self, TypeVar, overload

from broker_runtime.metadata.changes import Changes
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.slicing.steps import Steps, chosen

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")


class Area(Protocol):
    """The state of one area of the metadata, and everything that follows from its records.

    Equal states are equal objects.
    """

    RECORDS: ClassVar[tuple[type[MetadataRecord], ...]]
    """The kinds of records that change this area. An area may use a kind of an earlier area, too."""

    def apply(self, record: MetadataRecord, offset: int | None, changes: Changes) -> None:
        """Change the state by one of its records, and note the change in `changes`.

        `offset` is the record's own, None in a snapshot, where offsets mean nothing. Raises ValueError, and changes
        nothing then, when the record does not fit the state.
        """
        ...

    def records(self) -> Iterator[MetadataRecord]:
        """Return records that produce an equal state from an empty one, sorted: equal states give equal records."""
        ...

    def copy(self) -> Self:
        """Return an independent copy of the current state; immutable parts are shared."""
        ...

    def note_differences(self, newer: Self, changes: Changes) -> Steps[None]:
        """Note in `changes` what a node has to react to when `newer` replaces this state.

        Neither state changes between two steps.
        """
        ...


class ReadOnlyTable(Mapping[K, V]):
    """A mapping that is read-only for its users. The area that derives from it changes `_entries`."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[K, V] = {}

    def __getitem__(self, key: K) -> V:
        return self._entries[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    # Mapping's own methods process one entry at a time.

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    @overload
    def get(self, key: K, /) -> V | None: ...

    @overload
    def get(self, key: K, default: V | D, /) -> V | D: ...

    def get(self, key: K, default: V | D | None = None, /) -> V | D | None:
        return self._entries.get(key, default)

    def keys(self) -> KeysView[K]:
        return self._entries.keys()

    def values(self) -> ValuesView[V]:
        return self._entries.values()

    def items(self) -> ItemsView[K, V]:
        return self._entries.items()

    def copy(self) -> Self:
        """Return an independent copy of the entries.

        An area with other state overrides this method, and copies that too.
        """
        other = type(self)()
        other._entries = self._entries.copy()
        return other


def either(one: Mapping[K, object], other: Mapping[K, object]) -> Iterator[K]:
    """Yield each key that is in at least one of the mappings, once.

    Building a set of the keys would take one long step.
    """
    yield from one
    for key in other:
        if key not in one:
            yield key


def differing(was: Mapping[K, object], now: Mapping[K, object]) -> Steps[list[K]]:
    """Return the keys whose values differ between the mappings. A missing key counts as one with the value None."""
    return (yield from chosen(either(was, now), lambda key: was.get(key) != now.get(key)))


def set_key(table: dict[K, Mapping[str, V]], owner: K, key: str, value: V | None) -> None:
    """Set one key of an owner, or remove it if the value is None; an owner without keys is removed."""
    kept = {name: known for name, known in table.get(owner, {}).items() if name != key}
    if value is not None:
        kept[key] = value
    if kept:
        table[owner] = kept
    else:
        table.pop(owner, None)

"""ACLs by resource and name, so that a check reads only those that cover its resource. Pure.

A check of a name needs the literal ACLs of that name, the literal ACLs of `*`, and those of all prefixes of the name.
Prefixes are sorted. The largest one that is not greater than the name is the longest prefix of the name, or shares the
beginning with all its prefixes. So each step of the search is one binary search.
"""

from bisect import bisect_right, insort
from collections.abc import Iterator, Mapping
from typing import Self

from broker_runtime.security.acls.model import WILDCARD, Acl, AclPattern

Rules = tuple[tuple[int, int], ...]
"""(operation, permission) pairs."""
Bucket = dict[tuple[str, str], Rules]
"""The rules of one name, by principal and host."""


class _OfType:
    """The ACLs of one type of resource."""

    __slots__ = ("literal", "own", "prefixed", "prefixes")

    def __init__(self) -> None:
        self.own: set[tuple[int, str]] = set()
        """Pattern and name of the buckets that no copy shares."""
        self.literal: dict[str, Bucket] = {}
        self.prefixed: dict[str, Bucket] = {}
        self.prefixes: list[str] = []
        """The names of `prefixed`, sorted."""

    def copy(self) -> Self:
        """Return a copy that shares the buckets. Both copy a bucket before its first change."""
        self.own.clear()
        other = type(self)()
        other.literal = self.literal.copy()
        other.prefixed = self.prefixed.copy()
        other.prefixes = self.prefixes.copy()
        return other

    def own_bucket(self, table: dict[str, Bucket], pattern: int, name: str) -> Bucket:
        """Return the bucket of a name, to be changed."""
        if (pattern, name) not in self.own:
            table[name] = table[name].copy() if name in table else {}
            self.own.add((pattern, name))
        return table[name]

    def table(self, pattern: int) -> dict[str, Bucket]:
        return self.prefixed if pattern == AclPattern.PREFIXED else self.literal


class AclIndex:
    """Owns the rules by type of resource, pattern and name."""

    __slots__ = ("_types", "is_shared", "state")

    def __init__(self) -> None:
        self._types: dict[int, _OfType] = {}
        self.is_shared = False
        """Whether it must not change any more, because somebody else reads it. A copy may change."""
        self.state = object()
        """Another object after each change. A copy has the same one until either of them changes."""

    def copy(self) -> Self:
        """Return an independent copy."""
        other = type(self)()
        other._types = {resource: one.copy() for resource, one in self._types.items()}
        other.state = self.state
        return other

    def add(self, acl: Acl) -> None:
        """Add an ACL that the index does not have."""
        self.state = object()
        one = self._types.get(acl.resource)
        if one is None:
            one = self._types[acl.resource] = _OfType()
        table = one.table(acl.pattern)
        if acl.name not in table and table is one.prefixed:
            insort(one.prefixes, acl.name)
        bucket = one.own_bucket(table, acl.pattern, acl.name)
        owner = acl.principal, acl.host
        bucket[owner] = (*bucket.get(owner, ()), (acl.operation, acl.permission))

    def remove(self, acl: Acl) -> None:
        """Remove an ACL that the index has."""
        self.state = object()
        one = self._types[acl.resource]
        table = one.table(acl.pattern)
        bucket, owner = one.own_bucket(table, acl.pattern, acl.name), (acl.principal, acl.host)
        left = tuple(rule for rule in bucket[owner] if rule != (acl.operation, acl.permission))
        if left:
            bucket[owner] = left
            return
        del bucket[owner]
        if not bucket:
            del table[acl.name]
            one.own.discard((acl.pattern, acl.name))
            if table is one.prefixed:
                del one.prefixes[bisect_right(one.prefixes, acl.name) - 1]
            if not one.literal and not one.prefixed:
                del self._types[acl.resource]

    def covering(self, resource: int, name: str) -> Iterator[Bucket]:
        """Yield the rules of each ACL name that covers the resource."""
        one = self._types.get(resource)
        if one is None:
            return
        found = one.literal.get(name)
        if found is not None:
            yield found
        if name != WILDCARD and (found := one.literal.get(WILDCARD)) is not None:
            yield found
        prefixes, rest = one.prefixes, name
        while rest and (at := bisect_right(prefixes, rest)):
            candidate = prefixes[at - 1]
            if rest.startswith(candidate):
                yield one.prefixed[candidate]
                rest = candidate[:-1]
            else:
                rest = rest[: _common_length(candidate, rest)]

    def names(self, resource: int, pattern: AclPattern) -> Mapping[str, Bucket]:
        """Return the rules of all ACLs of this type of resource and this pattern, by name."""
        one = self._types.get(resource)
        return {} if one is None else one.table(pattern)


def _common_length(one: str, other: str) -> int:
    """Return the length of the longest common prefix. Comparing slices takes less time than comparing characters."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low

"""ACLs by resource and name, so that a check reads only those that cover its resource. Pure.

A check of a name needs the literal ACLs of that name, the literal ACLs of `*`, and those of all prefixes of the name.
Prefixes are sorted. The largest one that is not greater than the name has the same beginning as the name, up to the
end of every prefix of the name. So one binary search finds it, and the prefixes of the name are it or prefixes of it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Self

from broker_runtime.security.acls.model import WILDCARD, Acl, AclPattern, AclPermission

Rules = tuple[int, int]
"""The operations that ACLs allow, and the operations that ACLs deny, as bits."""
Bucket = dict[tuple[str, str], Rules]
"""The rules of the ACLs with one resource name, by principal and host."""
_NO_RULES: Rules = (0, 0)


class _OfType:
    """The ACLs of one type of resource."""

    __slots__ = ("literal", "outer", "own", "prefixed", "prefixes")

    def __init__(self) -> None:
        self.own: set[tuple[int, str]] = set()
        """Pattern and name of the buckets that no copy shares."""
        self.literal: dict[str, Bucket] = {}
        self.prefixed: dict[str, Bucket] = {}
        self.prefixes: list[str] = []
        """The names of `prefixed`, sorted."""
        self.outer: dict[str, str | None] = {}
        """The longest other name of `prefixed` that is a prefix of a name, by that name."""

    def copy(self) -> Self:
        """Return a copy that shares the buckets. Both copy a bucket before its first change."""
        self.own.clear()
        other = type(self)()
        other.literal = self.literal.copy()
        other.prefixed = self.prefixed.copy()
        other.prefixes = self.prefixes.copy()
        other.outer = self.outer.copy()
        return other

    def longest_prefix_of(self, name: str) -> str | None:
        at = bisect_right(self.prefixes, name)
        found = self.prefixes[at - 1] if at else None
        while found is not None and not name.startswith(found):
            found = self.outer[found]
        return found

    def add_prefix(self, name: str) -> None:
        outer = self.longest_prefix_of(name)
        at = bisect_left(self.prefixes, name)
        for inner in self._inside(name, at):
            if self.outer[inner] == outer:
                self.outer[inner] = name
        self.outer[name] = outer
        self.prefixes.insert(at, name)

    def remove_prefix(self, name: str) -> None:
        at, outer = bisect_left(self.prefixes, name), self.outer.pop(name)
        del self.prefixes[at]
        for inner in self._inside(name, at):
            if self.outer[inner] == name:
                self.outer[inner] = outer

    def _inside(self, name: str, at: int) -> Iterator[str]:
        """Yield the prefixes that begin with `name`: they are consecutive from position `at` on."""
        while at < len(self.prefixes) and self.prefixes[at].startswith(name):
            yield self.prefixes[at]
            at += 1

    def own_bucket(self, table: dict[str, Bucket], pattern: int, name: str) -> Bucket:
        """Return the bucket of a name, to be changed."""
        if (pattern, name) not in self.own:
            table[name] = table[name].copy() if name in table else {}
            self.own.add((pattern, name))
        return table[name]

    def table(self, pattern: int) -> dict[str, Bucket]:
        return self.prefixed if pattern == AclPattern.PREFIXED else self.literal


class AclIndex:
    """The rules of ACLs by type of resource, pattern and name."""

    __slots__ = ("_types", "is_shared", "state")

    def __init__(self) -> None:
        self._types: dict[int, _OfType] = {}
        self.is_shared = False
        """Whether the index must not change any more, because a copied image or another thread reads it.

        A copy may change.
        """
        self.state = object()
        """Another object after each change. A copy has the same one until either of them changes."""

    def copy(self) -> Self:
        """Return an independent copy of the index."""
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
            one.add_prefix(acl.name)
        bucket = one.own_bucket(table, acl.pattern, acl.name)
        owner = acl.principal, acl.host
        allowed, denied = bucket.get(owner, _NO_RULES)
        bit = 1 << acl.operation
        bucket[owner] = (allowed, denied | bit) if acl.permission == AclPermission.DENY else (allowed | bit, denied)

    def remove(self, acl: Acl) -> None:
        """Remove an ACL that the index has."""
        self.state = object()
        one = self._types[acl.resource]
        table = one.table(acl.pattern)
        bucket, owner = one.own_bucket(table, acl.pattern, acl.name), (acl.principal, acl.host)
        allowed, denied = bucket[owner]
        bit = 1 << acl.operation
        left = (allowed, denied & ~bit) if acl.permission == AclPermission.DENY else (allowed & ~bit, denied)
        if left != _NO_RULES:
            bucket[owner] = left
            return
        del bucket[owner]
        if not bucket:
            del table[acl.name]
            one.own.discard((acl.pattern, acl.name))
            if table is one.prefixed:
                one.remove_prefix(acl.name)
            if not one.literal and not one.prefixed:
                del self._types[acl.resource]

    def covering(self, resource: int, name: str) -> Sequence[Bucket]:
        """Return the rules of each ACL name that covers the resource."""
        one = self._types.get(resource)
        if one is None:
            return ()
        found = []
        if (bucket := one.literal.get(name)) is not None:
            found.append(bucket)
        if name != WILDCARD and (bucket := one.literal.get(WILDCARD)) is not None:
            found.append(bucket)
        prefix = one.longest_prefix_of(name)
        while prefix is not None:
            found.append(one.prefixed[prefix])
            prefix = one.outer[prefix]
        return found

    def names(self, resource: int, pattern: AclPattern) -> Mapping[str, Bucket]:
        """Return the rules of all ACLs of this type of resource and this pattern, by name."""
        one = self._types.get(resource)
        return {} if one is None else one.table(pattern)

"""Decides whether a client may perform an operation, as Apache Kafka's StandardAuthorizer does (KIP-801). Pure.

The decision about one resource consists of all its operations at once, as bits. It is kept for the next check until an
ACL changes. So a check is usually one look-up, however many ACLs exist.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from broker_runtime.security.acls.index import AclIndex, Bucket, Rules
from broker_runtime.security.acls.model import EVERYONE, WILDCARD, AclOperation, AclPattern
from broker_runtime.security.principal import THIS_NODE, Principal

A = TypeVar("A")

_EVERYTHING = sum(1 << operation for operation in AclOperation if operation > AclOperation.ALL)
_DESCRIBE, _DESCRIBE_CONFIGS = 1 << AclOperation.DESCRIBE, 1 << AclOperation.DESCRIBE_CONFIGS
_IMPLY_DESCRIBE = sum(
    1 << each for each in (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER)
)
_IMPLY_DESCRIBE_CONFIGS = 1 << AclOperation.ALTER_CONFIGS
"""An ACL that allows one of these allows the implied operation, too. An ACL that denies it denies no other."""
_ALL = 1 << AclOperation.ALL
_KEPT_CHARACTERS_MAX = 1_024
"""Characters of a principal and a name whose decision is kept. Names of topics have 249; clients may send others."""
_ANY_NAME = "hardcode"
"""The name with which Apache Kafka checks whether a client may use any resource of a type."""

_NAMES_OF_A_STEP = 64

_Key = tuple[str, str, int, str | int]
"""Principal, host, type of resource and name; or an operation, which may be allowed on any resource of the type."""


class StandardAuthorizer:
    """Kafka's authorizer over the ACLs of an index.

    Caches its decisions until the next change of an ACL.
    """

    __slots__ = ("_acls", "_allows_unnamed", "_kept", "_kept_max", "_state", "_super_users")

    def __init__(
        self,
        acls: Callable[[], AclIndex],
        super_users: frozenset[str] = frozenset(),
        *,
        allow_everyone_if_no_acl_found: bool = False,
        kept_max: int = 10_000,
    ) -> None:
        """`acls` returns the current ACLs; `kept_max` is the number of decisions to keep."""
        self._acls = acls
        self._super_users = super_users
        self._allows_unnamed = allow_everyone_if_no_acl_found
        self._kept_max = kept_max
        self._kept: dict[_Key, int] = {}
        self._state: object = None
        """The state of the ACLs for which decisions are kept."""

    @property
    def state(self) -> object:
        """Return an object that differs after each change of the ACLs."""
        return self._acls().state

    def frozen(self) -> "StandardAuthorizer":
        """Return an authorizer with the current ACLs for another thread. Its ACLs do not change."""
        index = self._acls()
        index.is_shared = True
        return StandardAuthorizer(
            lambda: index,
            self._super_users,
            allow_everyone_if_no_acl_found=self._allows_unnamed,
            kept_max=self._kept_max,
        )

    def allows(self, principal: Principal, host: str, operation: int, resource: int, name: str) -> bool:
        """Return whether a client may perform the operation on the resource of this name."""
        return bool(self.operations(principal, host, resource, name) >> operation & 1)

    def operations(self, principal: Principal, host: str, resource: int, name: str) -> int:
        """Return the bits of all operations that a client may perform on the resource of this name."""
        if principal is THIS_NODE:
            return _EVERYTHING
        index, who = self._acls(), str(principal)
        kept = self._kept
        if index.state is not self._state:
            kept.clear()
            self._state = index.state
        key = who, host, resource, name
        found = kept.get(key)
        if found is None:
            found = self._decide(index, who, host, resource, name)
            if len(who) + len(name) <= _KEPT_CHARACTERS_MAX:
                self._keep(key, found)
        return found

    def allows_any(self, principal: Principal, host: str, operation: int, resource: int) -> Generator[None, None, bool]:
        """Return whether the operation is allowed on any resource of the type (KIP-679).

        The search reads all ACLs, so the generator pauses at each `yield`, after some microseconds. The ACLs may change
        meanwhile.
        """
        allowed = self.operations(principal, host, resource, _ANY_NAME)
        if allowed >> operation & 1:
            return True
        who, key = str(principal), (str(principal), host, resource, operation)
        known = self._kept.get(key)
        if known is None:
            state = self._state
            known = yield from _allows_some(self._acls(), who, host, operation, resource)
            # A result of ACLs that have changed meanwhile must not be kept.
            if len(who) <= _KEPT_CHARACTERS_MAX and self._acls().state is state is self._state:
                self._keep(key, known)
        return bool(known)

    def _keep(self, key: _Key, found: int) -> None:
        if len(self._kept) >= self._kept_max:
            self._kept.clear()
        self._kept[key] = found

    def _decide(self, index: AclIndex, who: str, host: str, resource: int, name: str) -> int:
        if who in self._super_users:
            return _EVERYTHING
        covering = index.covering(resource, name)
        if not covering:
            return _EVERYTHING if self._allows_unnamed else 0
        allowed, denied = _rules(covering, _owners(who, host))
        return 0 if denied & _ALL else _with_implied(allowed) & ~denied


def _with_implied(allowed: int) -> int:
    """Return the operations that these ones, as ACLs allow them, stand for."""
    if allowed & _ALL:
        return allowed & ~_ALL | _EVERYTHING
    if allowed & _IMPLY_DESCRIBE:
        allowed |= _DESCRIBE
    return allowed | _DESCRIBE_CONFIGS if allowed & _IMPLY_DESCRIBE_CONFIGS else allowed


def _owners(who: str, host: str) -> tuple[tuple[str, str], ...]:
    """Return the principals and hosts of the ACLs that apply to this client."""
    owners = (who, host), (who, WILDCARD), (EVERYONE, host), (EVERYONE, WILDCARD)
    if ":" not in host:
        return owners
    full = _spelled_by_kafka(host)
    return *owners, (who, full), (EVERYONE, full)


def _spelled_by_kafka(host: str) -> str:
    """Return an IPv6 address as ACLs of Apache Kafka have it: with all eight numbers, 2001:db8:0:0:0:0:0:1."""
    before, gap, after = host.partition("::")
    if not gap:
        return host
    first, last = (part.split(":") if part else [] for part in (before, after))
    return ":".join([*first, *["0"] * (8 - len(first) - len(last)), *last])


def _rules(buckets: Iterable[Bucket], owners: Iterable[tuple[str, str]]) -> Rules:
    """Return the operations that the ACLs of these names allow and deny to the owners, as bits."""
    allowed = denied = 0
    for bucket in buckets:
        for owner in owners:
            if owner in bucket:
                also_allowed, also_denied = bucket[owner]
                allowed |= also_allowed
                denied |= also_denied
    return allowed, denied


def _allows_some(index: AclIndex, who: str, host: str, operation: int, resource: int) -> Generator[None, None, bool]:
    """Return whether an ACL allows the operation on some name, and none denies it on the same names or more."""
    denied: dict[AclPattern, set[str]] = {AclPattern.LITERAL: set(), AclPattern.PREFIXED: set()}
    allowed: dict[AclPattern, set[str]] = {AclPattern.LITERAL: set(), AclPattern.PREFIXED: set()}
    owners, asked = _owners(who, host), _ALL | 1 << operation
    for pattern in allowed:
        # ACLs may change between two steps.
        for entries in _pages(list(index.names(resource, pattern).items())):
            for name, bucket in entries:
                may, may_not = _rules((bucket,), owners)
                if may & asked:
                    allowed[pattern].add(name)
                if may_not & asked:
                    denied[pattern].add(name)
            yield
    if WILDCARD in denied[AclPattern.LITERAL]:
        return False
    if WILDCARD in allowed[AclPattern.LITERAL]:
        return True
    prefixes = denied[AclPattern.PREFIXED]
    sizes = sorted(set(map(len, prefixes)))
    for pattern, names in allowed.items():
        for some in _pages(names):
            for name in some:
                is_denied = pattern == AclPattern.LITERAL and name in denied[AclPattern.LITERAL]
                if not is_denied and not any(name[:size] in prefixes for size in sizes):
                    return True
            yield
    return False


def _pages(items: Iterable[A]) -> Iterator[list[A]]:
    rest = iter(items)
    while page := list(islice(rest, _NAMES_OF_A_STEP)):
        yield page

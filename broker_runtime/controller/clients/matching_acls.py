"""Find the ACLs that many filters match, without comparing each filter with each ACL. Pure.

The controller decides one request after the other. Fifty thousand filters and 100,000 ACLs would otherwise keep it busy
for an hour, and it would fence brokers whose heartbeats wait.
"""

from collections.abc import Iterable, Sequence

from broker_runtime.controller.capacity import RECORDS_MAX
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.acls import Acls
from broker_runtime.security.acls.model import Acl, AclFilter, AclPattern
from broker_runtime.slicing.steps import Steps, chosen, drain, gathered, listed, pages

COMPARISONS_MAX = 2_000_000
"""Limit of the comparisons of a filter with an ACL in one request, which take about a second."""
_MATCHES_MAX = 10 * RECORDS_MAX
"""Matching ACLs in one answer. Several filters may match the same ACL."""
_ACLS_OF_A_STEP = 128


class MatchingAcls:
    """Finds the ACLs that the filters of one request match, and remembers the results by filter."""

    def __init__(self, acls: Acls) -> None:
        self._acls = acls
        self._all: Sequence[Acl] = ()
        self._by_name: dict[str, list[Acl]] = {}
        self._by_principal: dict[str, list[Acl]] = {}
        self._found: dict[AclFilter, Sequence[Acl]] = {}
        self._compared = self._answered = 0
        self.distinct: dict[Acl, None] = {}
        """The ACLs that match any filter."""

    def find(self, filters: Sequence[AclFilter]) -> Steps[list[Sequence[Acl]]]:
        """Return the ACLs that each filter matches.

        Raises KafkaError(INVALID_REQUEST) if more than 10,000 match, or if the search would take long.
        """
        yield from self._group(filters)
        results: list[Sequence[Acl]] = []
        for wanted in filters:
            found = self._found.get(wanted)
            if found is None:
                found = self._found[wanted] = yield from self._matching(wanted)
                yield from self._note(found)
            self._answered += len(found)
            if self._answered > _MATCHES_MAX:
                raise _too_many(f"The filters match more than {_MATCHES_MAX} acls, some of them several times.")
            results.append(found)
            yield
        for kept in (self._by_name, self._by_principal, self._found):
            yield from drain(kept)
        return results

    def _group(self, filters: Sequence[AclFilter]) -> Steps[None]:
        """Note the ACLs of each name and of each principal that a filter names."""
        self._all = yield from listed(self._acls.values())
        names = yield from gathered(each.name for each in filters if each.name is not None)
        principals = yield from gathered(each.principal for each in filters if each.principal is not None)
        for some in pages(self._all, _ACLS_OF_A_STEP):
            for acl in some:
                if acl.name in names:
                    self._by_name.setdefault(acl.name, []).append(acl)
                if acl.principal in principals:
                    self._by_principal.setdefault(acl.principal, []).append(acl)
            yield
        yield from drain(names)
        yield from drain(principals)

    def _matching(self, wanted: AclFilter) -> Steps[Sequence[Acl]]:
        if wanted.is_exact:
            exact = Acl(*wanted)  # type: ignore[arg-type]
            return () if self._acls.id_of(exact) is None else (exact,)
        candidates = self._candidates(wanted)
        self._compared += len(candidates)
        if self._compared > COMPARISONS_MAX:
            raise _too_many(f"The filters need more than {COMPARISONS_MAX} comparisons with acls.")
        return (yield from chosen(candidates, wanted.matches))

    def _candidates(self, wanted: AclFilter) -> Sequence[Acl]:
        """Return the fewest ACLs among which all matching ones are."""
        found = self._all
        if wanted.principal is not None:
            found = self._by_principal.get(wanted.principal, ())
        if wanted.name is not None and wanted.pattern != AclPattern.MATCH:
            found = min(found, self._by_name.get(wanted.name, ()), key=len)
        return found

    def _note(self, found: Iterable[Acl]) -> Steps[None]:
        for some in pages(found, _ACLS_OF_A_STEP):
            self.distinct.update(dict.fromkeys(some))
            if len(self.distinct) > RECORDS_MAX:
                raise _too_many(f"Cannot remove more than {RECORDS_MAX} acls in a single delete operation.")
            yield


def _too_many(what: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, f"{what} Split it into several requests.")

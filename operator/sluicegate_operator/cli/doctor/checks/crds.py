"""Judge the CRDs of an API server beside those of this release. Pure."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sluicegate_operator.api.crd import definition
from sluicegate_operator.api.kinds import KINDS
from sluicegate_operator.api.schema.metadata import API_VERSION, GROUP, VERSION
from sluicegate_operator.cli.doctor.checks.catalogue import CRDS
from sluicegate_operator.cli.doctor.checks.results import CheckResult, Unread, listed

Json = Mapping[str, Any]
NEWER = (
    "the CRDs are newer than this command: use the command of their release, or apply the CRDs of this one:"
    " kubectl apply --server-side -f crds"
)


@dataclass(slots=True)
class SchemaDifference:
    """The paths at which two schemas differ: fields that one of them lacks, and fields that have other rules."""

    lacking: list[str] = field(default_factory=list)
    more: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)


@cache
def wanted_crds() -> Mapping[str, Json]:
    """Return the CRDs of this release by name."""
    return {f"{kind.plural}.{GROUP}": definition(name) for name, kind in KINDS.items()}


def crd_results(
    found: Mapping[str, Json | Unread | None], served: Collection[str] | Unread, release: str
) -> Iterator[CheckResult]:
    """Yield a result for each CRD that needs attention, and one for the others.

    `found` has the CRDs by name, None for a missing one. `served` has the plurals that the API server serves in this
    version: every user may read them, also a user who may not read CRDs.
    """
    good = 0
    unread = ""
    for name, wanted in wanted_crds().items():
        crd = found[name]
        if isinstance(crd, Unread):
            plural = name.partition(".")[0]
            if not isinstance(served, Unread) and plural not in served:
                yield _missing(name)
            unread = crd.why
        elif crd is None:
            yield _missing(name)
        elif (result := _judged(name, crd, wanted, release)) is not None:
            yield result
        else:
            good += 1
    if good:
        yield CRDS.ok(f"{good} of {len(found)} CRDs are established, and have the schemas of release {release}")
    if unread:
        yield CRDS.skipped(f"the schemas of CRDs cannot be compared: {unread}")


def _missing(name: str) -> CheckResult:
    return CRDS.problem(f"{name} does not exist, or does not serve {API_VERSION}")


def _judged(name: str, crd: Json, wanted: Json, release: str) -> CheckResult | None:
    conditions = {one["type"]: one for one in (crd.get("status") or {}).get("conditions") or ()}
    established = conditions.get("Established") or {}
    if established.get("status") != "True":
        why = (conditions.get("NamesAccepted") or {}).get("message") or established.get("message") or "no reason given"
        return CRDS.problem(f"{name} is not established: {why}")
    versions = {one["name"]: one for one in crd["spec"]["versions"]}
    if not versions.get(VERSION, {}).get("served"):
        others = listed(key for key, one in versions.items() if one.get("served"))
        return CRDS.problem(f"{name} does not serve the version {VERSION}, which this command uses, but {others}")
    [ours] = wanted["spec"]["versions"]
    theirs = (versions[VERSION].get("schema") or {}).get("openAPIV3Schema") or {}
    difference = compared(ours["schema"]["openAPIV3Schema"], theirs)
    if difference.lacking:
        return CRDS.problem(
            f"{name} has another schema than release {release}: it lacks the fields {listed(difference.lacking)}"
        )
    if difference.more:
        return CRDS.warning(f"{name} has fields that release {release} does not know: {listed(difference.more)}", NEWER)
    if difference.other:
        return CRDS.warning(f"{name} has another schema than release {release} at {listed(difference.other)}")
    return None


def compared(ours: Json, theirs: Json) -> SchemaDifference:
    found = SchemaDifference()
    _compare(ours, theirs, "", found)
    return found


def _compare(ours: Json, theirs: Json, path: str, found: SchemaDifference) -> None:
    mine, other = ours.get("properties") or {}, theirs.get("properties") or {}
    found.lacking += [_joined(path, name) for name in mine if name not in other]
    found.more += [_joined(path, name) for name in other if name not in mine]
    for name in mine.keys() & other.keys():
        _compare(mine[name], other[name], _joined(path, name), found)
    for key, below in (("items", "[]"), ("additionalProperties", "{}")):
        inner, outer = ours.get(key), theirs.get(key)
        if isinstance(inner, Mapping) and isinstance(outer, Mapping):
            _compare(inner, outer, path + below, found)
        elif inner != outer:
            found.other.append(path + below)
    if _own(ours) != _own(theirs):
        found.other.append(path or "the object")


def _own(node: Json) -> Json:
    """Return the keys of a node itself, without those that contain other nodes."""
    return {key: value for key, value in node.items() if key not in ("properties", "items", "additionalProperties")}


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name

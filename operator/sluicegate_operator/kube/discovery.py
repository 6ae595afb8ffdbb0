"""The API server's discovery documents, as kopf reads them, made from a table of kinds.

kopf watches the kinds that discovery has when kopf starts, and no others. From the table, it watches every kind of the
operator, also one whose CRD is installed later; the session waits for that one alone.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from sluicegate_operator.kube.kinds import NAMESPACE, NODE, Kind

Json = dict[str, Any]


def discovery(kinds: Iterable[Kind]) -> Mapping[str, Json]:
    """Documents by path. Namespaces are in them for kopf, which starts no watch before it has found that kind."""
    versions: defaultdict[str, list[Kind]] = defaultdict(list)
    for kind in dict.fromkeys((NAMESPACE, *kinds)):
        versions[kind.api_version].append(kind)
    groups = [_group(version) for version in versions if "/" in version]
    found: dict[str, Json] = {"/api": {"versions": ["v1"]}, "/apis": {"groups": groups}}
    for version, ones in versions.items():
        root = "apis" if "/" in version else "api"
        found[f"/{root}/{version}"] = {"resources": [_resource(kind) for kind in ones]}
    return found


def _group(api_version: str) -> Json:
    name, _, version = api_version.partition("/")
    return {"name": name, "versions": [{"version": version}], "preferredVersion": {"version": version}}


def _resource(kind: Kind) -> Json:
    return {
        "name": kind.plural,
        "singularName": kind.kind.lower(),
        "kind": kind.kind,
        "namespaced": kind not in (NAMESPACE, NODE),
        "verbs": ["list", "watch"],
    }

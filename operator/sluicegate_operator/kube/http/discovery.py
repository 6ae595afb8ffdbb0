"""The API server's discovery documents that kopf reads, made from a table of kinds.

kopf watches only the kinds that discovery lists when kopf starts. With the table, kopf watches every kind of the
operator, including a kind whose CRD is installed later. The session waits for that kind alone.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from sluicegate_operator.kube.http.kinds import NAMESPACE, NODE, Kind

Json = dict[str, Any]


def discovery(kinds: Iterable[Kind]) -> Mapping[str, Json]:
    """Return the documents by which clients find the kinds that an API server has, by path.

    They include namespaces, because kopf starts no watch before it has found that kind.
    """
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

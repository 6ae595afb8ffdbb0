"""Every field of every good manifest in another spelling of the same value: no node restarts.

The manifests are those that a real API server accepts, so that a new field is tested as soon as one of them has it.
"""

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

import pytest

from sluicegate_operator.api import BrokerCluster, BrokerListener, parse_resource
from sluicegate_operator.planning.layout.children import wanted_revision
from sluicegate_operator.planning.layout.cluster_layout import Role, plan_cluster
from sluicegate_operator.planning.layout.restart_reasons import NodeRevision, decode_revision, restart_reasons
from tests.support.manifests.all_manifests import ALL_GOOD
from tests.support.manifests.bad_manifests import Json, cluster

ORDERED = ("files",)
"""Lists whose order has a meaning: Python imports a module from the first wheel that has it."""
TEXTS = ("annotations", "labels", "nodeSelector")
"""Mappings of texts that the operator passes on."""
Path = tuple[str | int, ...]


def places(value: object, path: Path = ()) -> Iterator[tuple[Path, object]]:
    """Yield every value within a spec, with its path."""
    yield path, value
    items: Any = value.items() if isinstance(value, Mapping) else enumerate(value if isinstance(value, list) else ())
    for key, inner in items:
        if key not in TEXTS:
            yield from places(inner, (*path, key))


def respelled(path: Path, value: object) -> Iterator[object]:
    """Yield the same value in other spellings."""
    if isinstance(value, dict):
        yield dict(reversed(value.items()))
    elif isinstance(value, list) and value:
        if not set(ORDERED) & set(path):
            yield value[::-1]
        yield [*value, value[0]]
    elif isinstance(value, int) and not isinstance(value, bool):
        yield float(value)
    elif isinstance(value, str):
        if amount := re.fullmatch(r"([0-9]+)Gi", value):
            yield f"{int(amount[1]) * 1024}Mi"
        if "config" in path and re.fullmatch("[0-9]+", value):
            yield from (f"0{value}", f"+{value}")
        if "config" in path and value in ("true", "false"):
            yield value.upper()
        if path[-1] == "jwksEndpointUri":
            yield re.sub("//[^/]+", lambda host: f"{host[0].upper()}:443", value)


def changed(spec: Json, path: Path, value: object) -> Json:
    found: Any = deepcopy(spec)
    if not path:
        assert isinstance(value, dict)
        return value
    inner = found
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return dict(found)


def revisions(manifest: Json) -> dict[Role, NodeRevision]:
    """Revisions of the nodes of a cluster, or of those that open a listener. Raises InvalidResourceError."""
    found = parse_resource(manifest)
    listeners = [found] if isinstance(found, BrokerListener) else []
    shop = parse_resource(cluster()) if listeners else found
    assert isinstance(shop, BrokerCluster)
    layout = plan_cluster(shop, listeners)
    return {role: wanted_revision(shop, layout, role) for role in Role}


def _own_nodes(manifest: Json) -> bool:
    is_external = manifest["spec"].get("runtime") == "External"
    return manifest["kind"] in ("BrokerListener", "BrokerCluster") and not is_external


CASES = {good.name: good.manifest for good in ALL_GOOD if _own_nodes(good.manifest)}


@pytest.mark.parametrize("manifest", CASES.values(), ids=CASES)
def test_every_spelling_of_every_field_restarts_nothing(manifest: Json) -> None:
    manifest = manifest | {"status": {"tlsSecret": "checked"}} if manifest["spec"].get("tls") else manifest
    before = revisions(manifest)
    for path, value in places(manifest["spec"]):
        for other in respelled(path, value):
            try:
                after = revisions(manifest | {"spec": changed(manifest["spec"], path, other)})
            except ValueError:
                # The API refuses this spelling.
                continue
            for role in Role:
                started = decode_revision(before[role].encode())
                assert restart_reasons(started, after[role]) == (), (path, value, other)


def test_most_fields_have_another_spelling() -> None:
    tried = [path for each in CASES.values() for path, value in places(each["spec"]) for _ in respelled(path, value)]
    assert len(CASES) > 30
    assert len(tried) > 150

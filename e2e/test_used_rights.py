"""What the operator has asked of the API server in this whole run, by the server's own log, against kube/rights.py.

By its name the last file of the run. The log ends where the run has come to: by itself this can only say that nothing
was asked for that is not in the table; after all other files, that everything in the table was asked for, too.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.control_plane import ControlPlane
from e2e.shop import Shop
from sluicegate_operator.kube.rights import CALLED, CALLED_OF_SPARK
from tests.support.rights import Rights, surplus

FILES = {path.name for path in Path(__file__).parent.glob("test_*.py")}
ACCOUNT = "system:serviceaccount:sluicegate-system:sluicegate-operator"
MADE = "create"
ON_OCCASION = frozenset({"get", "patch"})
"""What is made is brought back when somebody has changed it, and asked for by name when something that the cache does
not know has its name: in a short run neither may happen."""


def requests(plane: ControlPlane) -> Iterator[dict[str, Any]]:
    with plane.audit_log.open(encoding="utf-8") as lines:
        for line in lines:
            event = json.loads(line)
            # Without an object it is discovery, which everybody may have.
            if event["user"]["username"] == ACCOUNT and "objectRef" in event:
                yield event


def asked_for(plane: ControlPlane) -> Rights:
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for event in requests(plane):
        target = event["objectRef"]
        resource = "/".join(filter(None, (target["resource"], target.get("subresource"))))
        found[target.get("apiGroup", ""), resource].add(event["verb"])
    return {resource: frozenset(verbs) for resource, verbs in found.items()}


def test_the_operator_has_asked_for_what_the_table_says(
    shop: Shop, plane: ControlPlane, request: pytest.FixtureRequest
) -> None:
    asked = asked_for(plane)
    assert surplus(asked, {**CALLED, **CALLED_OF_SPARK}) == [], "asked for, and not in kube/rights.py"
    if not {item.path.name for item in request.session.items} >= FILES:
        return
    kept = {resource: verbs | ON_OCCASION if MADE in verbs else verbs for resource, verbs in asked.items()}
    assert surplus(CALLED, kept) == [], "in kube/rights.py and granted, and never asked for"

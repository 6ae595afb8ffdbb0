"""The rights that the operator used in an e2e run, compared with those that kube/client/rights.py grants it.

Each process of the run, one for each worker of pytest-xdist, has a separate API server and writes the rights that the
server's audit log names into reports/used-rights. After a whole run, `python -m e2e.world.used_rights` requires that
the operator used every right of the table and requested no other.
"""

import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from sluicegate_operator.kube.client.rights import CALLED, CALLED_OF_SECRETS, CALLED_OF_SPARK
from tests.support.oracles.rights import Rights, surplus

FOLDER = Path(__file__).parents[2] / "reports" / "used-rights"
ACCOUNT = "system:serviceaccount:sluicegate-system:sluicegate-operator"
MADE = "create"
ON_OCCASION = frozenset({"get", "patch"})
"""The operator patches an object that it creates only after another client changed it.

It gets an object by name only if the cache does not know it. A run need not contain either.
"""


def used_rights(audit_log: Iterable[str]) -> Rights:
    """Return the rights that the operator's requests in this log used. The log has one JSON object a line."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for event in _requests(audit_log):
        target = event["objectRef"]
        resource = "/".join(filter(None, (target["resource"], target.get("subresource"))))
        found[target.get("apiGroup", ""), resource].add(event["verb"])
    return {resource: frozenset(verbs) for resource, verbs in found.items()}


def _requests(audit_log: Iterable[str]) -> Iterator[dict[str, Any]]:
    for line in audit_log:
        event = json.loads(line)
        # A request without an object is discovery, which every user may make.
        if event["user"]["username"] == ACCOUNT and "objectRef" in event:
            yield event


def keep(audit_log: Path) -> None:
    """Write the rights of this process's log to its file in FOLDER."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with audit_log.open(encoding="utf-8") as lines:
        rows = [[*resource, sorted(verbs)] for resource, verbs in used_rights(lines).items()]
    (FOLDER / f"{os.environ.get('PYTEST_XDIST_WORKER', 'main')}.json").write_text(json.dumps(rows))


def faults(runs: Iterable[str]) -> list[str]:
    """Return the differences from the table, as sentences, for the contents of all files of a run."""
    used: dict[tuple[str, str], frozenset[str]] = defaultdict(frozenset)
    for run in runs:
        for group, resource, verbs in json.loads(run):
            used[group, resource] |= frozenset(verbs)
    excused = {resource: verbs | ON_OCCASION if MADE in verbs else verbs for resource, verbs in used.items()}
    return [
        *(f"the operator used the right `{right}`, which kube/client/rights.py lacks" for right in _unlisted(used)),
        *(
            f"kube/client/rights.py grants `{right}`, which the operator never used"
            for right in surplus(CALLED, excused)
        ),
    ]


def _unlisted(used: Rights) -> list[str]:
    return surplus(used, {**CALLED, **CALLED_OF_SPARK, **CALLED_OF_SECRETS})


def main() -> int:
    files = sorted(FOLDER.glob("*.json"))
    found = faults(file.read_text() for file in files)
    for fault in found:
        sys.stderr.write(f"error: {fault}\n")
    sys.stderr.write(f"[e2e] the operator's rights were compared in {len(files)} processes\n")
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main())

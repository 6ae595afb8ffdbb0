"""The rights of all processes of an e2e run are compared with the table together."""

import json

from e2e.world.used_rights import ACCOUNT, faults, used_rights
from sluicegate_operator.kube.client.rights import CALLED

ALL = json.dumps([[*resource, sorted(verbs)] for resource, verbs in CALLED.items()])


def request(verb: str, resource: str, group: str = "", user: str = ACCOUNT) -> str:
    return json.dumps(
        {"user": {"username": user}, "verb": verb, "objectRef": {"resource": resource, "apiGroup": group}}
    )


def test_only_the_operators_requests_for_objects_count() -> None:
    discovery = json.dumps({"user": {"username": ACCOUNT}, "verb": "get"})
    log = [request("list", "pods"), request("watch", "pods"), request("delete", "nodes", user="admin"), discovery]
    assert used_rights(log) == {("", "pods"): {"list", "watch"}}


def test_a_run_that_used_the_whole_table_has_no_fault() -> None:
    assert faults([ALL]) == []


def test_workers_share_the_table() -> None:
    rows = json.loads(ALL)
    assert faults([json.dumps(rows[::2]), json.dumps(rows[1::2])]) == []
    assert faults([json.dumps(rows[::2])]) != []


def test_an_unused_and_an_unlisted_right_are_named() -> None:
    (group, resource), verbs = next(iter(CALLED.items()))
    verb = sorted(verbs - {"get", "patch"})[0]
    rows = [[*key, sorted(used - {verb} if key == (group, resource) else used)] for key, used in CALLED.items()]
    named = ".".join(filter(None, (resource, group)))
    assert faults([json.dumps([*rows, ["", "secrets", ["list"]]])]) == [
        "the operator used the right `list secrets`, which kube/client/rights.py lacks",
        f"kube/client/rights.py grants `{verb} {named}`, which the operator never used",
    ]

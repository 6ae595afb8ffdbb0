"""Features of ApiVersions and their updates, and Kafka's answers without an authorizer or a receiver of metrics."""

from collections.abc import Mapping
from uuid import UUID

from tests.integration.differential.play import Play
from tests.support.processes.clients.wire_client import Plain, trimmed

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
TIMEOUT_MS = 15_000
GROUPS, METADATA, REPLICAS = "group.version", "metadata.version", "eligible.leader.replicas.version"
Updates = list[tuple[str, int, int]]

UPDATES: Mapping[str, Updates] = {
    "the level that it has": [(GROUPS, 1, UPGRADE)],
    "the level that it has, downwards": [(GROUPS, 1, SAFE_DOWNGRADE)],
    "the level that it has, by force": [(GROUPS, 1, UNSAFE_DOWNGRADE)],
    "two features": [(REPLICAS, 1, UPGRADE), (METADATA, 30, UPGRADE)],
    "a level above": [(GROUPS, 2, UPGRADE)],
    "metadata above": [(METADATA, 31, UPGRADE)],
    "metadata below": [(METADATA, 6, SAFE_DOWNGRADE)],
    "down without saying so": [(GROUPS, 0, UPGRADE)],
    "metadata down without saying so": [(METADATA, 29, UPGRADE)],
    "down": [(GROUPS, 0, SAFE_DOWNGRADE)],
    "negative": [(GROUPS, -1, SAFE_DOWNGRADE)],
    "no kind of update": [(GROUPS, 1, 0)],
    "unknown kind of update": [(GROUPS, 1, 9)],
    "unknown feature": [("no.such.feature", 1, UPGRADE)],
    "a known and an unknown one": [(GROUPS, 1, UPGRADE), ("no.such.feature", 1, UPGRADE)],
    "without a name": [("", 1, UPGRADE)],
}


def told(on: Play) -> None:
    """Features in ApiVersions, without their epoch, which differs between nodes."""
    software = {"client_software_name": "wire-client", "client_software_version": "1.0"}
    for version in range(5):
        answer = on.quietly("api_versions", version, **(software if version >= 3 else {}))
        names = ("supported_features", "finalized_features", "zk_migration_ready")
        found = {name: answer[name] for name in names if name in answer}
        if "finalized_features_epoch" in answer:
            found["epoch is told"] = answer["finalized_features_epoch"] > 0
        on.note(f"version {version}", found)


def updated(on: Play) -> None:
    """Updates that are only validated: levels stay the same."""
    for step, updates in UPDATES.items():
        for version in (1, 2):
            wanted = [
                {"feature": name, "max_version_level": level, "upgrade_type": kind} for name, level, kind in updates
            ]
            asked = {"timeout": TIMEOUT_MS, "feature_updates": wanted, "validate_only": True}
            on.ask(f"{step}, version {version}", "update_features", version, **asked)
    for downgrade in (False, True):
        wanted = [{"feature": GROUPS, "max_version_level": 1, "allow_downgrade": downgrade}]
        on.ask(f"downgrade {downgrade}, version 0", "update_features", 0, timeout=TIMEOUT_MS, feature_updates=wanted)
    on.ask("nothing", "update_features", 2, timeout=TIMEOUT_MS, feature_updates=[], validate_only=True)


def acls(on: Play) -> None:
    every: dict[str, Plain] = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    new: dict[str, Plain] = {
        "resource_type": 2,
        "resource_name": "orders",
        "resource_pattern_type": 3,
        "principal": "User:alice",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    for version in (1, 2, 3):
        on.ask(f"described, version {version}", "describe_acls", version, **every)
        for step, count in (("none", 0), ("one", 1), ("two", 2)):
            on.ask(f"{step} made, version {version}", "create_acls", version, creations=[new] * count)
            on.ask(f"{step} deleted, version {version}", "delete_acls", version, filters=[every] * count)
    odd = {"resource_type": 99, "principal": "nobody", "operation": 44}
    on.ask("odd one made", "create_acls", 3, creations=[new | odd])
    on.ask("odd ones described", "describe_acls", 3, **every | {"resource_type_filter": 99, "operation": 44})


def telemetry(on: Play) -> None:
    """A client pushes metrics although ApiVersions does not list that."""
    nobody, reserved = UUID(int=0), UUID(int=1)
    new = on.quietly("get_telemetry_subscriptions", 0, client_instance_id=nobody)
    own_id = UUID(new["client_instance_id"])
    on.note("subscriptions of a new client", _without_own_ids(new))
    again = on.quietly("get_telemetry_subscriptions", 0, client_instance_id=own_id)
    on.note("asked again at once", _without_own_ids(again))
    wrong = new["subscription_id"] ^ 1
    ways: Mapping[str, tuple[UUID, int, bool, int, int]] = {
        "pushed with a wrong id": (own_id, wrong, False, 0, 10),
        "pushed too soon": (own_id, new["subscription_id"], False, 0, 10),
        "last push with an unknown compression": (own_id, new["subscription_id"], True, 9, 10),
        "pushed after the last push": (own_id, new["subscription_id"], True, 0, 10),
        "pushed by nobody": (nobody, 0, False, 0, 10),
        "pushed with a reserved id": (reserved, 0, False, 0, 10),
        "pushed by a stranger": (UUID(int=2**70), 5, False, 0, 10),
    }
    for step, (instance_id, subscription_id, terminating, compression, size) in ways.items():
        asked = {
            "client_instance_id": instance_id,
            "subscription_id": subscription_id,
            "terminating": terminating,
            "compression_type": compression,
            "metrics": b"x" * size,
        }
        on.ask(step, "push_telemetry", 0, **trimmed("push_telemetry", 0, asked))
    big = on.quietly("get_telemetry_subscriptions", 0, client_instance_id=nobody)
    asked = {
        "client_instance_id": UUID(big["client_instance_id"]),
        "subscription_id": big["subscription_id"],
        "terminating": False,
        "compression_type": 0,
        "metrics": b"x" * (big["telemetry_max_bytes"] + 1),
    }
    on.ask("pushed too much", "push_telemetry", 0, **asked)


def _without_own_ids(answer: Plain) -> Plain:
    """Replace IDs, which differ between nodes, by whether there is one."""
    known = {"client_instance_id": str(UUID(int=0)) != answer["client_instance_id"]}
    return {**answer, **known, "subscription_id": answer["subscription_id"] != 0}

"""Configurations of groups, client metrics subscriptions and a broker's loggers; each sequence undoes its changes."""

from collections.abc import Mapping

from tests.integration.differential.play import Play
from tests.integration.differential.scripts.configs import (
    APPEND,
    BROKER_LOGGER,
    CLIENT_METRICS,
    DELETE,
    GROUP,
    NODE,
    SUBTRACT,
    alter,
    describe,
)
from tests.integration.differential.settling import SET, resource, settle

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"
Change = tuple[str, int, str | None]

GROUP_CHANGES: Mapping[str, Change] = {
    "session": (SESSION, SET, "46000"),
    "session with blanks": (SESSION, SET, " 47000 "),
    "session too short": (SESSION, SET, "44999"),
    "session too long": (SESSION, SET, "60001"),
    "session that is a word": (SESSION, SET, "long"),
    "session that is empty": (SESSION, SET, ""),
    "session without a value": (SESSION, SET, None),
    "session appended to": (SESSION, APPEND, "5"),
    "session subtracted from": (SESSION, SUBTRACT, "5"),
    "session by an unknown operation": (SESSION, 9, "5"),
    "session by the broker's name": ("group.consumer.session.timeout.ms", SET, "46000"),
    "session removed": (SESSION, DELETE, None),
    "session removed again": (SESSION, DELETE, None),
    "heartbeat": (HEARTBEAT, SET, "15000"),
    "heartbeat too often": (HEARTBEAT, SET, "4999"),
    "heartbeat too seldom": (HEARTBEAT, SET, "15001"),
    "heartbeat removed": (HEARTBEAT, DELETE, None),
    "assignment": (ASSIGNMENT, SET, "0"),
    "assignment before it": (ASSIGNMENT, SET, "-1"),
    "assignment too late": (ASSIGNMENT, SET, "15001"),
    "assignment removed": (ASSIGNMENT, DELETE, None),
    "isolation of shares": ("share.isolation.level", SET, "read_committed"),
    "isolation of shares that is none": ("share.isolation.level", SET, "read_everything"),
    "isolation of shares removed": ("share.isolation.level", DELETE, None),
    "flag that is none": ("share.renew.acknowledge.enable", SET, "perhaps"),
    "unknown key": ("no.such.key", SET, "1"),
    "unknown key removed": ("no.such.key", DELETE, None),
}
SUBSCRIPTION_CHANGES: Mapping[str, Change] = {
    "interval": ("interval.ms", SET, "30000"),
    "interval too short": ("interval.ms", SET, "99"),
    "interval too long": ("interval.ms", SET, "3600001"),
    "interval that is a word": ("interval.ms", SET, "often"),
    "interval that is empty": ("interval.ms", SET, ""),
    "interval without a value": ("interval.ms", SET, None),
    "interval appended to": ("interval.ms", APPEND, "1"),
    "interval removed": ("interval.ms", DELETE, None),
    "metrics": ("metrics", SET, "org.apache.kafka.producer.,org.apache.kafka.consumer."),
    "all metrics": ("metrics", SET, "*"),
    "no metrics": ("metrics", SET, ""),
    "metrics appended to": ("metrics", APPEND, "one"),
    "metrics subtracted from": ("metrics", SUBTRACT, "one"),
    "metrics removed": ("metrics", DELETE, None),
    "match": ("match", SET, "client_id=shop-.*,client_software_name=apache-kafka-java"),
    "match without an expression": ("match", SET, "client_id"),
    "match with an unknown key": ("match", SET, "customer=1"),
    "match with a bad expression": ("match", SET, "client_id=["),
    "match with two signs": ("match", SET, "client_id=a=b"),
    "match that is empty": ("match", SET, ""),
    "match removed": ("match", DELETE, None),
    "unknown operation": ("match", 9, "1"),
    "unknown key": ("no.such.key", SET, "1"),
    "unknown key removed": ("no.such.key", DELETE, None),
}
LOGGER_CHANGES: Mapping[str, Change] = {
    "a level": ("root", SET, "ERROR"),
    "another level": ("root", SET, "FATAL"),
    "level that is none": ("root", SET, "LOUD"),
    "level in other letters": ("root", SET, "error"),
    "level of the logging library": ("root", SET, "OFF"),
    "level that is empty": ("root", SET, ""),
    "level without a value": ("root", SET, None),
    "level removed": ("root", DELETE, None),
    "level appended to": ("root", APPEND, "ERROR"),
    "level subtracted from": ("root", SUBTRACT, "ERROR"),
    "level by an unknown operation": ("root", 9, "ERROR"),
    "unknown logger": ("no.such.logger", SET, "ERROR"),
    "unknown logger removed": ("no.such.logger", DELETE, None),
    "logger without a name": ("", SET, "ERROR"),
}


def groups(on: Play) -> None:
    _played(on, GROUP, f"configured-{on.number}", GROUP_CHANGES)


def client_metrics(on: Play) -> None:
    _played(on, CLIENT_METRICS, f"subscribed-{on.number}", SUBSCRIPTION_CHANGES)


def _played(on: Play, kind: int, name: str, changes: Mapping[str, Change]) -> None:
    describe(on, "before", kind, name, None)
    for version in (1, 4):
        describe(on, f"without a name, version {version}", kind, "", None, version)
    for step, change in changes.items():
        alter(on, f"validated: {step}", resource(kind, name, change), validate_only=True)
        alter(on, step, resource(kind, name, change))
        settle(on)
        describe(on, f"after {step}", kind, name, [change[0]])
        if "removed" in step:
            on.note(f"listed after {step}", _is_listed(on, kind, name))
    good = next(iter(changes.values()))
    alter(on, "without a name", resource(kind, "", good), validate_only=True)
    alter(on, "a key twice", resource(kind, name, good, good), validate_only=True)
    alter(on, "a resource twice", resource(kind, name, good), resource(kind, name, good), validate_only=True)
    alter(on, "version 0", resource(kind, name, good), version=0)
    settle(on)
    on.note("listed", _is_listed(on, kind, name))
    describe(on, "version 1", kind, name, [good[0]], 1)
    for step, configs in (("null", [(good[0], None)]), ("unknown key", [("no.such.key", "1")]), ("nothing", [])):
        named = [{"name": key, "value": value} for key, value in configs]
        wanted = [{"resource_type": kind, "resource_name": name, "configs": named}]
        on.ask(f"replaced by {step}", "alter_configs", 2, resources=wanted, validate_only=False)
        settle(on)
    on.note("listed after all", _is_listed(on, kind, name))


def _is_listed(on: Play, kind: int, name: str) -> bool:
    listed = on.quietly("list_config_resources", 1, resource_types=[kind])["config_resources"]
    return any(item["resource_name"] == name for item in listed)


def broker_loggers(on: Play) -> None:
    """Tests the root logger only, which both nodes have."""
    every = describe(on, None, BROKER_LOGGER, NODE, None)
    on.note("there are others", len(every) > 1)
    on.note("kinds", sorted({str({**entry, "name": "", "value": ""}) for entry in every}))
    (before,) = describe(on, None, BROKER_LOGGER, NODE, ["root"])
    for step, change in LOGGER_CHANGES.items():
        alter(on, f"validated: {step}", resource(BROKER_LOGGER, NODE, change), validate_only=True)
        alter(on, step, resource(BROKER_LOGGER, NODE, change))
        describe(on, f"after {step}", BROKER_LOGGER, NODE, ["root", "no.such.logger"])
    good = ("root", SET, "ERROR")
    for name in ("", "2", "one", "-1", " 1"):
        alter(on, f"alter {name!r}", resource(BROKER_LOGGER, name, good), validate_only=True)
        describe(on, f"describe {name!r}", BROKER_LOGGER, name, ["root"])
    alter(on, "a key twice", resource(BROKER_LOGGER, NODE, good, good), validate_only=True)
    twice = [resource(BROKER_LOGGER, NODE, good)] * 2
    alter(on, "a resource twice", *twice, validate_only=True)
    wanted = [{"resource_type": BROKER_LOGGER, "resource_name": NODE, "configs": [{"name": "root", "value": "ERROR"}]}]
    on.ask("replaced", "alter_configs", 2, resources=wanted, validate_only=True)
    for version in (1, 3):
        describe(on, f"version {version}", BROKER_LOGGER, NODE, ["root"], version)
    alter(on, "undone", resource(BROKER_LOGGER, NODE, ("root", SET, before["value"])), version=0)
    (after,) = describe(on, None, BROKER_LOGGER, NODE, ["root"])
    on.note("as before", after == before)

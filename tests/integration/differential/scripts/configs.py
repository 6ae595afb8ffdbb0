"""Configurations of brokers and topics, described and altered, right and wrong. Each sequence undoes its changes."""

from collections.abc import Sequence

from tests.integration.differential.play import Play
from tests.integration.differential.settling import BROKER, SET, TOPIC, resource, settle
from tests.support.processes.clients.wire_client import Plain

GROUP, BROKER_LOGGER, CLIENT_METRICS = 32, 8, 16
DELETE, APPEND, SUBTRACT = 1, 2, 3
NODE = "1"
RATE = "max.connection.creation.rate"
PER_IP = "max.connections.per.ip"
EXTERNAL = "listener.name.external."
DYNAMIC_BROKER, DYNAMIC_DEFAULT = 2, 3

Changes = Sequence[tuple[str, int, str | None]]


def alter(on: Play, step: str, *resources: Plain, validate_only: bool = False, version: int = 1) -> None:
    on.ask(step, "incremental_alter_configs", version, resources=list(resources), validate_only=validate_only)


def describe(
    on: Play, step: str | None, kind: int, name: str, keys: Sequence[str] | None, version: int = 4
) -> list[Plain]:
    """Describe a resource; the answer is recorded if a step is named."""
    fields = {"include_documentation": False} if version >= 3 else {}
    wanted = [{"resource_type": kind, "resource_name": name, "configuration_keys": keys}]
    answer = on.quietly("describe_configs", version, resources=wanted, include_synonyms=True, **fields)
    if step is not None:
        on.note(step, answer)
    found: list[Plain] = answer["results"][0]["configs"]
    return found


def start_clean(on: Play) -> None:
    """Remove what earlier scripts left set, so that their order makes no difference."""
    for name, own in (("", DYNAMIC_DEFAULT), (NODE, DYNAMIC_BROKER)):
        left = [entry["name"] for entry in describe(on, None, BROKER, name, None) if entry["config_source"] == own]
        # Kafka has this key for the cluster and refuses to remove it.
        undo = [(key, DELETE, None) for key in left if key != "min.insync.replicas"]
        if undo:
            on.quietly("incremental_alter_configs", 1, resources=[resource(BROKER, name, *undo)], validate_only=False)
            settle(on, BROKER, name)


def _names_and_flags(entries: list[Plain]) -> Plain:
    """Return names and flags, which do not depend on the machine; values do."""
    return [{flag: entry[flag] for flag in ("name", "read_only", "is_sensitive", "config_type")} for entry in entries]


BROKER_CHANGES: dict[str, tuple[str, int, str | None]] = {
    "unknown key": ("no.such.key", SET, "1"),
    "read-only key": ("quota.window.num", SET, "3"),
    "read-only key removed": ("quota.window.num", DELETE, None),
    "rate that is a word": (RATE, SET, "many"),
    "rate that is a fraction": (RATE, SET, "1.5"),
    "rate that is empty": (RATE, SET, ""),
    "rate without a value": (RATE, SET, None),
    "negative rate": (RATE, SET, "-1"),
    "rate of zero": (RATE, SET, "0"),
    "rate above 32 bits": (RATE, SET, "2147483648"),
    "rate with an underscore": (RATE, SET, "1_000"),
    "rate with a sign": (RATE, SET, "+78"),
    "rate with blanks": (RATE, SET, " 77 "),
    "rate appended to": (RATE, APPEND, "5"),
    "rate removed": (RATE, DELETE, None),
    "rate removed that is not set": (RATE, DELETE, None),
    "unknown operation": (RATE, 9, "5"),
    "negative count per ip": (PER_IP, SET, "-1"),
    "count per ip": (PER_IP, SET, "1000"),
    "count per ip of zero without overrides": (PER_IP, SET, "0"),
    "count per ip removed": (PER_IP, DELETE, None),
    "overrides": ("max.connections.per.ip.overrides", SET, "127.0.7.1:500"),
    "overrides removed": ("max.connections.per.ip.overrides", DELETE, None),
    "overrides without a count": ("max.connections.per.ip.overrides", SET, "127.0.7.1"),
    "overrides with a word": ("max.connections.per.ip.overrides", SET, "127.0.7.1:many"),
    "overrides with a count above 32 bits": ("max.connections.per.ip.overrides", SET, "127.0.7.1:99999999999"),
    "negative connections": ("max.connections", SET, "-1"),
    "no connections": ("max.connections", SET, "0"),
    "connections": ("max.connections", SET, "5000"),
    "connections removed": ("max.connections", DELETE, None),
    "listener's connections of zero": (f"{EXTERNAL}max.connections", SET, "0"),
    "listener's rate of zero": (EXTERNAL + RATE, SET, "0"),
    "listener's negative rate": (EXTERNAL + RATE, SET, "-4"),
    "listener's rate that is a word": (EXTERNAL + RATE, SET, "many"),
    "listener's rate": (EXTERNAL + RATE, SET, "5000"),
    "listener's rate removed": (EXTERNAL + RATE, DELETE, None),
    "rate of a listener that is not there": (f"listener.name.nowhere.{RATE}", SET, "5"),
    "rate of a listener that is not there removed": (f"listener.name.nowhere.{RATE}", DELETE, None),
    "listener's key without a prefix form": (EXTERNAL + PER_IP, SET, "5"),
    "listener's key without a prefix form removed": (EXTERNAL + PER_IP, DELETE, None),
    "listener's key that is unknown": (f"{EXTERNAL}no.such.key", SET, "5"),
    "listener's key that is unknown removed": (f"{EXTERNAL}no.such.key", DELETE, None),
    "prefix without a key": ("listener.name.external", SET, "5"),
    "log retention": ("log.retention.ms", SET, "86400000"),
    "log retention removed": ("log.retention.ms", DELETE, None),
    "list appended to": ("log.cleanup.policy", APPEND, "compact"),
    "list subtracted from": ("log.cleanup.policy", SUBTRACT, "compact"),
    "list removed": ("log.cleanup.policy", DELETE, None),
    "list with a stranger": ("log.cleanup.policy", SET, "burn"),
    "message size": ("message.max.bytes", SET, "2000000"),
    "message size removed": ("message.max.bytes", DELETE, None),
    "node id": ("node.id", SET, "5"),
    "node id removed": ("node.id", DELETE, None),
}


def broker_configs(on: Play) -> None:
    """Change the cluster's default and the broker by name, one key after another, validated only and in force."""
    start_clean(on)
    for name, level in (("", "default"), (NODE, "broker")):
        for step, change in BROKER_CHANGES.items():
            alter(on, f"{level}, validated: {step}", resource(BROKER, name, change), validate_only=True)
            alter(on, f"{level}: {step}", resource(BROKER, name, change))
            settle(on, BROKER, name)
            describe(on, f"{level}: after {step}", BROKER, name, [change[0]])


def resources(on: Play) -> None:
    """Resources that do not exist, occur twice, or have another kind."""
    start_clean(on)
    good = (RATE, SET, "4321")
    for name in ("2", "-1", "one", "1.0", " "):
        alter(on, f"alter broker {name!r}", resource(BROKER, name, good), validate_only=True)
        describe(on, f"describe broker {name!r}", BROKER, name, [RATE])
    for kind in (BROKER_LOGGER, CLIENT_METRICS, GROUP, 0, 1, 77):
        alter(on, f"alter kind {kind}", resource(kind, "some-name", good), validate_only=True)
    for kind in (0, 1, 77):
        describe(on, f"describe kind {kind}", kind, "some-name", None)
    alter(on, "a resource twice", resource(BROKER, "", good), resource(BROKER, "", good))
    alter(on, "a key twice", resource(BROKER, "", good, (RATE, SET, "4322")))
    alter(on, "a key twice, another way", resource(BROKER, "", good, (RATE, DELETE, None)))
    alter(on, "nothing to change", resource(BROKER, ""))
    alter(on, "no resources")
    alter(on, "one good, one bad resource", resource(BROKER, NODE, good), resource(BROKER, "", ("x.y", SET, "1")))
    alter(on, "one good, one bad key", resource(BROKER, NODE, ("log.retention.ms", SET, "999999"), (RATE, SET, "z")))
    settle(on, BROKER, NODE)
    describe(on, "after these", BROKER, NODE, [RATE, "log.retention.ms"])
    alter(on, "version 0", resource(BROKER, NODE, (RATE, DELETE, None)), version=0)
    settle(on, BROKER, NODE)
    describe(on, "after all", BROKER, NODE, [RATE, "log.retention.ms"])


def replaced_configs(on: Play) -> None:
    """AlterConfigs removes every key that the request does not name."""
    start_clean(on)
    ways: dict[str, Sequence[tuple[str, str | None]]] = {
        "two keys": [(RATE, "4000"), (PER_IP, "400")],
        "one key": [(RATE, "4001")],
        "bad value": [(RATE, "-4")],
        "read-only key": [("quota.window.num", "4")],
        "null": [(RATE, None)],
        "a key twice": [(RATE, "4002"), (RATE, "4003")],
        "unknown key": [("no.such.key", "4")],
    }
    for name, level in (("", "default"), (NODE, "broker")):
        for step, configs in ways.items():
            if step == "unknown key" and not name:
                continue
            for version in (0, 1, 2):
                # Kafka refuses to remove this key from the cluster's default.
                kept = [] if name else [{"name": "min.insync.replicas", "value": "1"}]
                named = [{"name": key, "value": value} for key, value in configs] + kept
                wanted = [{"resource_type": BROKER, "resource_name": name, "configs": named}]
                on.ask(
                    f"{level}: {step}, version {version}",
                    "alter_configs",
                    version,
                    resources=wanted,
                    validate_only=version == 0,
                )
            settle(on, BROKER, name)
            describe(on, f"{level}: after {step}", BROKER, name, [RATE, PER_IP])
    for name, configs in (("", [("min.insync.replicas", "1")]), (NODE, [])):
        named = [{"name": key, "value": value} for key, value in configs]
        wanted = [{"resource_type": BROKER, "resource_name": name, "configs": named}]
        on.ask(f"broker {name!r}: nothing", "alter_configs", 2, resources=wanted, validate_only=False)
        settle(on, BROKER, name)


def precedence(on: Play) -> None:
    """A broker's value overrides the cluster's default, which overrides the file; the same with a listener's prefix."""
    start_clean(on)
    keys = [RATE, EXTERNAL + RATE, "quota.window.num", "node.id", "log.dirs", "log.retention.ms", "log.retention.hours"]
    describe(on, "before", BROKER, NODE, [key for key in keys if key != "log.dirs"])
    alter(on, "set default", resource(BROKER, "", (RATE, SET, "3001"), (EXTERNAL + RATE, SET, "3002")))
    settle(on, BROKER, "")
    describe(on, "default set", BROKER, NODE, [RATE, EXTERNAL + RATE])
    alter(on, "set broker", resource(BROKER, NODE, (RATE, SET, "3003")))
    settle(on, BROKER, NODE)
    describe(on, "broker set", BROKER, NODE, [RATE, EXTERNAL + RATE])
    describe(on, "default's own", BROKER, "", None)
    alter(on, "set listener", resource(BROKER, NODE, (EXTERNAL + RATE, SET, "3004")))
    for version in (1, 2, 3, 4):
        settle(on, BROKER, NODE)
        describe(on, f"all set, version {version}", BROKER, NODE, [RATE, EXTERNAL + RATE], version)
    alter(on, "undo broker", resource(BROKER, NODE, (RATE, DELETE, None), (EXTERNAL + RATE, DELETE, None)))
    settle(on, BROKER, NODE)
    describe(on, "broker undone", BROKER, NODE, [RATE, EXTERNAL + RATE])
    alter(on, "undo default", resource(BROKER, "", (RATE, DELETE, None), (EXTERNAL + RATE, DELETE, None)))
    settle(on, BROKER, "")
    describe(on, "default undone", BROKER, NODE, [RATE, EXTERNAL + RATE])
    every = describe(on, None, BROKER, NODE, None)
    none = describe(on, None, BROKER, NODE, [])
    on.note("no keys named are all keys", every == none)
    on.note("all keys", _names_and_flags(every))
    describe(on, "unknown wanted", BROKER, NODE, ["no.such.key"])


TOPIC_CHANGES: dict[str, tuple[str, int, str | None]] = {
    "retention": ("retention.ms", SET, "1000000"),
    "retention forever": ("retention.ms", SET, "-1"),
    "retention below forever": ("retention.ms", SET, "-2"),
    "retention that is a word": ("retention.ms", SET, "long"),
    "retention without a value": ("retention.ms", SET, None),
    "retention removed": ("retention.ms", DELETE, None),
    "unknown key": ("no.such.key", SET, "1"),
    "unknown key removed": ("no.such.key", DELETE, None),
    "broker's name of a key": ("log.retention.ms", SET, "1"),
    "segment too small": ("segment.bytes", SET, "13"),
    "policies": ("cleanup.policy", SET, "compact,delete"),
    "policy subtracted": ("cleanup.policy", SUBTRACT, "compact"),
    "policy appended": ("cleanup.policy", APPEND, "compact"),
    "policy appended again": ("cleanup.policy", APPEND, "compact"),
    "policy unknown": ("cleanup.policy", SET, "burn"),
    "policy empty": ("cleanup.policy", SET, ""),
    "policy removed": ("cleanup.policy", DELETE, None),
    "number appended to": ("retention.ms", APPEND, "5"),
    "number subtracted from": ("retention.ms", SUBTRACT, "5"),
    "compression": ("compression.type", SET, "zstd"),
    "compression unknown": ("compression.type", SET, "rar"),
    "compression removed": ("compression.type", DELETE, None),
    "timestamps": ("message.timestamp.type", SET, "LogAppendTime"),
    "timestamps in other letters": ("message.timestamp.type", SET, "logappendtime"),
    "timestamps removed": ("message.timestamp.type", DELETE, None),
    "replicas": ("min.insync.replicas", SET, "0"),
    "replicas more than there are": ("min.insync.replicas", SET, "3"),
    "replicas removed": ("min.insync.replicas", DELETE, None),
    "flag": ("unclean.leader.election.enable", SET, "TRUE"),
    "flag that is none": ("unclean.leader.election.enable", SET, "yes"),
    "flag removed": ("unclean.leader.election.enable", DELETE, None),
    "size": ("max.message.bytes", SET, "-1"),
}


def topic_configs(on: Play) -> None:
    topic = {"name": "configured", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    on.quietly("create_topics", 7, topics=[topic], timeout=10_000, validate_only=False)
    for step, change in TOPIC_CHANGES.items():
        alter(on, f"validated: {step}", resource(TOPIC, "configured", change), validate_only=True)
        alter(on, step, resource(TOPIC, "configured", change))
        settle(on, TOPIC, "configured")
        describe(on, f"after {step}", TOPIC, "configured", [change[0]])
    for name in ("no-such-topic", "", "bad name", "."):
        alter(on, f"alter topic {name!r}", resource(TOPIC, name, ("retention.ms", SET, "5")))
        describe(on, f"describe topic {name!r}", TOPIC, name, ["retention.ms"])
    describe(on, "all keys", TOPIC, "configured", None)

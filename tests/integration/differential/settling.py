"""Waits until a node knows the changes that it has acknowledged.

Kafka answers before its brokers have received a change. They receive the change of a marker, requested after all
others, after those or together with them.
"""

from tests.integration.differential.play import Play
from tests.support.processes.clients.wire_client import Plain

TOPIC, BROKER = 2, 4
SET = 0
MARKERS = {BROKER: "log.flush.interval.messages", TOPIC: "flush.messages"}
MARKS_MAX = 1_000
"""Maximum of one play. It keeps markers of two nodes equal after the same play, whatever each did before."""


def resource(kind: int, name: str, *changes: tuple[str, int, str | None]) -> Plain:
    configs = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    return {"resource_type": kind, "resource_name": name, "configs": configs}


def settle(on: Play, kind: int = BROKER, name: str = "") -> None:
    """Wait until all earlier changes are known, and the configuration of this resource is in force."""
    on.marks += 1
    assert on.marks < MARKS_MAX
    value = str(1_000_000 + on.number * MARKS_MAX + on.marks)
    marker = resource(kind, name, (MARKERS[kind], SET, value))
    on.quietly("incremental_alter_configs", 1, resources=[marker], validate_only=False)
    wanted = [{"resource_type": kind, "resource_name": name, "configuration_keys": [MARKERS[kind]]}]

    def is_there() -> bool:
        answer = on.quietly("describe_configs", 1, resources=wanted, include_synonyms=False)
        found = answer["results"][0]["configs"]
        return bool(found) and found[0]["value"] == value

    on.until(is_there)

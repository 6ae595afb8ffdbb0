"""The one table of wanted differences from Apache Kafka 4.3.0, each with its reason.

The suite fails on a difference that is not here, and on a line here that no difference answers to any more.
`python -m tests.integration.differential.wanted` writes docs/reference/differences-from-kafka.md from it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from tests.integration.differential.comparing import Difference

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "differences-from-kafka.md"


@dataclass(frozen=True, slots=True)
class Wanted:
    """`where`, `kafka` and `ours` are shell patterns; `where` is matched by `step/field/entry/field`."""

    sequence: str
    where: str
    kafka: str
    ours: str
    reason: str

    def explains(self, difference: Difference) -> bool:
        return (
            fnmatchcase(difference.path, self.where)
            and fnmatchcase(difference.kafka, self.kafka)
            and fnmatchcase(difference.ours, self.ours)
        )


def unexplained(sequence: str, found: Iterable[Difference]) -> list[Difference]:
    lines = of(sequence)
    return [difference for difference in found if not any(line.explains(difference) for line in lines)]


def outdated(sequence: str, found: Sequence[Difference]) -> list[Wanted]:
    return [line for line in of(sequence) if not any(line.explains(difference) for difference in found)]


def of(sequence: str) -> list[Wanted]:
    return [line for line in TABLE if line.sequence == sequence]


ENTRY, ABSENT = "(an entry)", "(absent)"

NOT_SERVED = "The API or version serves what this broker does not have (yet): groups, transactions, replication."
TOPIC_IDS = "Newer versions name topics by id (KIP-516), which is not served."
UNKNOWN_KEY = "Kafka stores keys that it does not know; here a typing mistake must not look like a limit that is set."
OTHER_KEYS = "Each broker has the keys of what it can do; strategy, limits and the HTTP listener are ours alone."
LISTENER_KEYS = "Kafka calls every key with a listener's prefix read-only, also those that it lets change."
DERIVED_TIME = "A time that follows from another key (hours from ms) is shown as it is in force, under its own key."
AS_UNDERSTOOD = "Values are shown without the blanks around them, wherever they are shown."
FIXED_HERE = "One event loop and a fixed set of listeners: these keys need a restart."

TABLE: Sequence[Wanted] = (
    Wanted("advertised ranges", "ranges/*", ENTRY, ABSENT, NOT_SERVED),
    Wanted("advertised ranges", "ranges/0/max", "13", "12", TOPIC_IDS),
    Wanted("advertised ranges", "ranges/1/max", "18", "12", TOPIC_IDS),
    Wanted("advertised ranges", "ranges/2/max", "11", "8", "Tiered storage (KIP-1005, KIP-1023) is not served."),
    Wanted("advertised ranges", "ranges/3/max", "13", "12", "Clients are not told to bootstrap anew (KIP-1102)."),
    Wanted("advertised ranges", "ranges/10/max", "6", "4", NOT_SERVED),
    Wanted("advertised ranges", "ranges/22/max", "5", "4", NOT_SERVED),
    Wanted(
        "odd frames",
        "client id that is no UTF-8*",
        "(answer)",
        "(connection closed)",
        "Text that is none ends the connection; Kafka puts other characters in its place.",
    ),
    Wanted(
        "odd frames",
        "produce with a negative count of topics*",
        "(connection closed)",
        "(answer)",
        "A null array of topics counts as an empty one: nothing is produced, and that is answered.",
    ),
    *(
        Wanted("broker configs", f"*{step}/responses/*/error_*", "*", "*", UNKNOWN_KEY)
        for step in (
            ": unknown key",
            ": prefix without a key",
            ": listener's key that is unknown",
            ": listener's key without a prefix form",
        )
    ),
    *(
        Wanted("broker configs", f"*: after {step}/results/*/configs/*", ENTRY, ABSENT, UNKNOWN_KEY)
        for step in (
            "unknown key",
            "prefix without a key",
            "listener's key that is unknown",
            "listener's key without a prefix form",
        )
    ),
    Wanted("broker configs", "*/listener.name.*/read_only", "True", "False", LISTENER_KEYS),
    Wanted("broker configs", "*/log.retention.ms/*", "*", "*", DERIVED_TIME),
    Wanted("broker configs", "*/max.connection.creation.rate/*value", " 77 ", "77", AS_UNDERSTOOD),
    Wanted(
        "config resources",
        "alter broker '*'/responses/*/error_*",
        "*",
        "*",
        "Any broker takes a change for any registered broker; Kafka's takes only one for itself.",
    ),
    Wanted("config resources", "alter kind 32/*", "*", "*", "Groups have no configuration until there are groups."),
    Wanted("config resources", "alter kind 16/*", "*", "*", "Client metrics subscriptions (KIP-714) are not served."),
    Wanted("config resources", "alter kind 8/*", "*", "*", "Log levels are not changed over the protocol."),
    Wanted("config resources", "one good, one bad resource/*", "*", "*", UNKNOWN_KEY),
    Wanted("config resources", "*/log.retention.ms/*", "*", "*", DERIVED_TIME),
    Wanted("replaced configs", "broker: *unknown key*", "*", "*", UNKNOWN_KEY),
    Wanted("config precedence", "all keys/*", ENTRY, ABSENT, OTHER_KEYS),
    Wanted("config precedence", "all keys/*", ABSENT, ENTRY, OTHER_KEYS),
    Wanted("config precedence", "all keys/*/read_only", "False", "True", FIXED_HERE),
    Wanted("config precedence", "all keys/listener.security.protocol.map/config_type", "2", "7", FIXED_HERE),
    Wanted("config precedence", "*/listener.name.*/read_only", "True", "False", LISTENER_KEYS),
    Wanted("config precedence", "*/log.retention.ms/*", "*", "*", DERIVED_TIME),
    Wanted(
        "config precedence",
        "broker set/*/listener.name.external.*/synonyms/max.connection.creation.rate*",
        "*",
        "*",
        "Every place that a listener's value may come from is listed; Kafka leaves out the broker's own base value.",
    ),
    Wanted(
        "config precedence",
        "default's own/*/synonyms/*",
        ENTRY,
        ABSENT,
        "The cluster's default lists what is set there; Kafka adds the base key of a listener's.",
    ),
    Wanted("topic configs", "*/synonyms/log.*", ABSENT, ENTRY, DERIVED_TIME),
    Wanted("topic configs", "all keys/*", ENTRY, ABSENT, OTHER_KEYS),
    Wanted(
        "topic configs",
        "describe topic 'no-such-topic'/*/error_message",
        "",
        "?*",
        "An error says what is wrong; Kafka leaves this message empty.",
    ),
    *(
        Wanted(
            "topic configs",
            where,
            "*",
            "*",
            "An empty cleanup.policy (KIP-1161) is not served; retention.ms=-1 keeps records for ever.",
        )
        for where in ("policy empty/*", "validated: policy empty/*", "after policy empty/*")
    ),
    Wanted(
        "topic configs",
        "*segment too small/*/error_message",
        "*1048576",
        "*14",
        "Segments may be smaller than a megabyte, which keeps tests of retention short.",
    ),
    Wanted(
        "quota changes",
        "an entry twice/*",
        "*",
        "*",
        "Both entries are answered, the second one with the error; Kafka merges them into one answer.",
    ),
    Wanted(
        "quota changes",
        "*key twice/*/error_message",
        "Ignoring duplicate entity *",
        "Duplicate quota key *",
        "The message names the key that came twice; Kafka's speaks of the entity.",
    ),
    Wanted(
        "quota changes",
        "*at once/*/error_message",
        "Ignoring duplicate entity *",
        "Duplicate quota key *",
        "The message names the key that came twice; Kafka's speaks of the entity.",
    ),
)


def page() -> str:
    lines = [
        "# Differences from Apache Kafka",
        "",
        "Generated by `python -m tests.integration.differential.wanted` from the table in that module. A suite plays",
        "the same scripts to Apache Kafka 4.3.0 and to our broker and compares every field of every answer; these are",
        "all the differences there are, and each is wanted. `*` stands for any text. Error messages count as equal if",
        "ours names the keys, addresses and names that Kafka's names. Not compared: throttle times, texts of manuals",
        "and what each node makes up itself (ids, ports, epochs: only whether there is one).",
    ]
    for sequence in dict.fromkeys(line.sequence for line in TABLE):
        lines += ["", f"## {sequence.capitalize()}", "", "| where | Apache Kafka | ours | why |", "|---|---|---|---|"]
        for line in of(sequence):
            lines.append(f"| {_cell(line.where)} | {_cell(line.kafka)} | {_cell(line.ours)} | {line.reason} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return f"`{text}`" if text else "(empty)"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

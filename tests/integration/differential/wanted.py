"""The one table of wanted differences from Apache Kafka 4.3.0, each with its reason.

The suite fails on a difference without a line here, and on a line here without a difference. `python -m
tests.integration.differential.wanted` writes docs/reference/differences-from-kafka.md from it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from tests.integration.differential.comparing import Difference

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "differences-from-kafka.md"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A wanted difference. `where`, `kafka` and `ours` are shell patterns; `where` matches `step/field/entry/field`."""

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

NOT_SERVED = "The API or version serves what this broker does not have: transactions, groups of shares and of streams."
UNKNOWN_KEY = (
    "Kafka stores keys and listeners that it does not know; a typing mistake must not look like a limit in force."
)
OTHER_KEYS = "Each broker has the keys of what it can do; strategy, limits and the HTTP listener are ours alone."
KEYS_OF_OTHER_GROUPS = "Share groups and Streams groups are not served; their keys are shown only where they are set."
LISTENER_KEYS = "Kafka calls every key with a listener's prefix read-only, also those that it lets change."
UNLED = (
    "A group that is of the classic protocol again rebalances in any case, or none of its members would know that it "
    "leads and has to look at the topics."
)
NAMED_AGAIN = (
    "A group that OffsetFetch names again is refused: a request of a megabyte could ask for all offsets of one group "
    "tens of thousands of times."
)
TOO_LITTLE = (
    "A quota below 1, and one of a share or of changes below 0.001, counts as nothing; Kafka stores such a value, and"
    " enforces a rate of 0."
)
DERIVED_TIME = "A time that follows from another key (hours from ms) is shown as it is in force, under its own key."
AS_UNDERSTOOD = "Values are shown as they are understood (without blanks and plus signs), wherever they are shown."
FIXED_HERE = "One event loop and threads that are made at the start: these keys need a restart."
FIXED_LEVELS = "Levels of features are fixed: no older behaviour is kept that a lower level would bring back."
A_LIST = "What is a list in the file is one when it is altered, too."
UNKNOWN_OPERATION = "A wrong request gets an error that names the mistake; Kafka answers with an error of its own."
TELLS_MORE = "An error says what is wrong; Kafka leaves this message empty."
NO_COORDINATORS = "Transactions are not served. Every client fails at once on this code, and asks again on others."
WITH_FEWER_REPLICAS = (
    "The topic of groups is made with as many replicas as there are brokers, up to offsets.topic.replication.factor; "
    "Kafka has no coordinators until there are so many brokers."
)
NO_START = "A partition that refused its records tells no start of the log."
NO_TRANSACTIONS = "Transactions are not served: the request is refused, and nothing is stored."
ERRORS_OF_BATCHES = (
    "Unless sluicegate.record.validation=all, records are checked only where a rule is about records (keys of "
    "compacted topics). Other errors are about the batch and name no record."
)
BATCHES = (
    "Unless sluicegate.record.validation=all, a batch is checked by its header, by the lengths of its first four "
    "records, and by the size that its compressed bytes state. Other faults of records are not reported: the batch is "
    "stored, and consumers fail at it. librdkafka stops there without an error."
)
BROKERS_OWN = (
    "Where clients have another listener, only limits with its own prefix reach the one of brokers and administrators; "
    "Kafka's inherits the broker's numbers and has addresses limited, which can lock out whoever is to lift them."
)
TWICE = "Each mention of the partition is answered; Kafka merges them into one answer."
WHOLE_BATCHES = (
    "Only whole batches are sent; Kafka fills the limit with part of the next one, which clients throw away."
)

TABLE: Sequence[Wanted] = (
    Wanted("advertised ranges", "ranges/*", ENTRY, ABSENT, NOT_SERVED),
    Wanted("advertised ranges", "ranges/22/max", "5", "4", NOT_SERVED),
    *(
        Wanted("features", f"version */*_features/{name}.version", ENTRY, ABSENT, NOT_SERVED)
        for name in ("share", "streams", "transaction")
    ),
    Wanted(
        "features",
        "version 4/supported_features/kraft.version",
        ENTRY,
        ABSENT,
        "It is the format of KRaft's set of voters; controllers here have a journal of another kind.",
    ),
    Wanted("features updated", "down, version */*", "*", "*", FIXED_LEVELS),
    Wanted(
        "odd frames",
        "client id that is no UTF-8*",
        "(answer)",
        "(connection closed)",
        "Text that is none ends the connection; Kafka puts other characters in its place.",
    ),
    *(
        Wanted("broker configs", f"*{step}/responses/*/error_*", "*", "*", UNKNOWN_KEY)
        for step in (
            ": unknown key",
            ": prefix without a key",
            ": listener's key that is unknown",
            ": listener's key without a prefix form",
            ": rate of a listener that is not there",
        )
    ),
    *(
        Wanted("broker configs", f"*: after {step}/results/*/configs/*", ENTRY, ABSENT, UNKNOWN_KEY)
        for step in (
            "unknown key",
            "prefix without a key",
            "listener's key that is unknown",
            "listener's key without a prefix form",
            "rate of a listener that is not there",
        )
    ),
    Wanted("broker configs", "*/listener.name.*/read_only", "True", "False", LISTENER_KEYS),
    Wanted("broker configs", "*/log.retention.ms/*", "*", "*", DERIVED_TIME),
    Wanted("broker configs", "*/max.connection.creation.rate/*value", " 77 ", "77", AS_UNDERSTOOD),
    Wanted("broker configs", "*/max.connection.creation.rate/*value", "+78", "78", AS_UNDERSTOOD),
    Wanted(
        "broker configs",
        "*overrides with a count above 32 bits/*/error_message",
        "*",
        "*",
        "The message names the key and says what is allowed; Kafka's shows the number.",
    ),
    Wanted(
        "config resources",
        "alter broker '*'/responses/*/error_*",
        "*",
        "*",
        "Any broker takes a change for any registered broker; Kafka's takes only one for itself.",
    ),
    Wanted("config resources", "one good, one bad resource/*", "*", "*", UNKNOWN_KEY),
    Wanted("config resources", "*/log.retention.ms/*", "*", "*", DERIVED_TIME),
    Wanted("replaced configs", "broker: *unknown key*", "*", "*", UNKNOWN_KEY),
    Wanted("config precedence", "all keys/*", ENTRY, ABSENT, OTHER_KEYS),
    Wanted("config precedence", "all keys/*", ABSENT, ENTRY, OTHER_KEYS),
    Wanted("config precedence", "all keys/*/read_only", "False", "True", FIXED_HERE),
    Wanted("config precedence", "all keys/listener.security.protocol.map/config_type", "2", "7", A_LIST),
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
    Wanted("topic configs", "all keys/*", ABSENT, ENTRY, OTHER_KEYS),
    Wanted(
        "topic configs",
        "describe topic 'no-such-topic'/*/error_message",
        "",
        "?*",
        TELLS_MORE,
    ),
    *(
        Wanted(sequence, f"*{step}unknown operation/responses/*/error_*", "*", "*", UNKNOWN_OPERATION)
        for sequence, step in (
            ("group configs", "session by an "),
            ("client metrics subscriptions", ""),
            ("broker loggers", "level by an "),
        )
    ),
    Wanted("group configs", "*/share.*", ENTRY, ABSENT, KEYS_OF_OTHER_GROUPS),
    Wanted("group configs", "*/streams.*", ENTRY, ABSENT, KEYS_OF_OTHER_GROUPS),
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
        "topics made",
        "two that clash/*",
        "*",
        "*",
        "Names that clash in metrics are refused within one request too; Kafka checks those of earlier requests only.",
    ),
    Wanted(
        "topics seen",
        "by neither, version 1?/*error_code",
        "unknown_server_error",
        "invalid_request",
        "A topic that is named in no way is a wrong request; Kafka fails over it.",
    ),
    Wanted(
        "topics grown",
        "*/growing-too/error_code",
        "unknown_server_error",
        "policy_violation",
        "More partitions than one request may make are refused as for new topics; Kafka fails over them.",
    ),
    Wanted("topics grown", "*/error_message", "None", "?*", TELLS_MORE),
    Wanted(
        "topics deleted",
        "by name once, by id once/*",
        "*",
        "*",
        "Each way of naming the topic gets its answer with the error; Kafka merges them into one.",
    ),
    Wanted("partitions moved", "cancelled*/error_message", "None", "?*", TELLS_MORE),
    Wanted("partitions moved", "nothing/error_message", "", "None", "Where nothing is wrong there is no message."),
    Wanted("lists and features", "producers/*/error_message", "*", "?*", TELLS_MORE),
    Wanted("coordinators", "version *", "*", "*", WITH_FEWER_REPLICAS),
    Wanted(
        "producer ids",
        "with a transactional id/error_code",
        "not_coordinator",
        "transactional_id_authorization_failed",
        NO_COORDINATORS,
    ),
    Wanted("coordinators", "of a transaction, version */error_*", "*", "*", NO_COORDINATORS),
    Wanted("records produced", "*/error_message", "None", "?*", TELLS_MORE),
    Wanted("records produced", "*/log_start_offset", "0", "-1", NO_START),
    Wanted("records produced", "*/record_errors/*", ENTRY, ABSENT, ERRORS_OF_BATCHES),
    *(
        Wanted("records produced", where, "*", "*", NO_TRANSACTIONS)
        for where in ("a transactional id/*", "transactional batch/*")
    ),
    Wanted("records produced", "afterwards/topics/taken/partitions/0/offset", "37", "36", NO_TRANSACTIONS),
    Wanted(
        "records produced",
        "broker's timestamps/*",
        "*",
        "*",
        "Only the topic decides that the broker stamps; Kafka stores the producer's claim.",
    ),
    Wanted("records produced", "two records of no bytes, packed/*", "*", "*", BATCHES),
    Wanted(
        "records produced",
        "largest timestamp of tomorrow/*",
        "*",
        "*",
        "Timestamps are judged by those of the batch's header, which clients set; Kafka reads those of the records.",
    ),
    *(
        Wanted(
            "records produced",
            f"{step}/*/error_code",
            "unknown_server_error",
            "invalid_record",
            "The producer is told that its batch is wrong, not that the broker is.",
        )
        for step in ("compression that is none", "unknown compression")
    ),
    *(
        Wanted(
            "records produced",
            f"{step}/*/error_code",
            "invalid_record",
            "corrupt_message",
            "A batch that is cut short is corrupt.",
        )
        for step in ("one byte", "sixty bytes", "length too large")
    ),
    Wanted(
        "records produced",
        "one batch and a half/*",
        "*",
        "*",
        "What follows the batch is refused; Kafka leaves it out without a word.",
    ),
    Wanted(
        "records produced",
        "producer without an epoch/*",
        "*",
        "*",
        "A producer id without an epoch cannot be fenced and is refused; Kafka stores it.",
    ),
    Wanted("records produced", "null records", "(no answer)", "(answer)", "Kafka fails and never answers."),
    Wanted("records of idempotent producers", "*/error_message", "None", "?*", TELLS_MORE),
    Wanted("records of idempotent producers", "*/log_start_offset", "0", "-1", NO_START),
    Wanted(
        "records of idempotent producers",
        "*/log_append_time",
        "(now)",
        "None",
        "A repeated batch is answered as the first time, without a time that the broker did not stamp.",
    ),
    Wanted("records and configurations", "*/error_message", "None", "?*", TELLS_MORE),
    Wanted("records and configurations", "*/log_start_offset", "0", "-1", NO_START),
    Wanted("records and configurations", "*/record_errors/*", ENTRY, ABSENT, ERRORS_OF_BATCHES),
    Wanted("records fetched", "at most *0*/responses/read/partitions/0/records/rest", "*", "0", WHOLE_BATCHES),
    Wanted("records fetched", "at most *0*/responses/read/partitions/1/records*", "*", "*", WHOLE_BATCHES),
    Wanted(
        "records fetched",
        "at most minus one/*",
        "*",
        "*",
        "A negative limit counts as the smallest one; Kafka fails over it.",
    ),
    Wanted("offsets looked up", "a partition twice/*", ABSENT, ENTRY, TWICE),
    Wanted(
        "offsets of nobody",
        "no partitions, */topics/kept",
        ABSENT,
        ENTRY,
        "A topic that is named without partitions is answered without any; Kafka leaves it out.",
    ),
    # Both figures of the answers' times ("answered at once", "last answer after s"); their number must be equal.
    Wanted("connections and the broker's rate", "between brokers/* *", "*", "*", BROKERS_OWN),
    Wanted("connections and an address's rate", "between brokers too/*", "*", "*", BROKERS_OWN),
    *(
        Wanted(sequence, "*/listener.name.*/read_only", "True", "False", LISTENER_KEYS)
        for sequence in ("limits of the file described", "limits of the file changed")
    ),
    *(
        Wanted("quota changes", f"*nearly no*/{where}", kafka, ours, TOO_LITTLE)
        for where, kafka, ours in (
            ("entries/*/error_code", "none", "invalid_request"),
            ("entries/*/error_message", "*", "?*"),
            ("entries/*", ENTRY, ABSENT),
        )
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
    *(
        Wanted("offsets of nobody", f"several, version */groups/simple-3+/{where}", kafka, ours, NAMED_AGAIN)
        for where, kafka, ours in (("error_code", "none", "invalid_request"), ("topics/kept", ENTRY, ABSENT))
    ),
    Wanted(
        "mixed groups joined",
        "join with no subscription, version 3/error_code",
        "unknown_server_error",
        "inconsistent_group_protocol",
        "Who says what nobody understands is told so; Kafka's error is that of a mistake of its own.",
    ),
    *(
        Wanted("mixed groups and static members", where, "*", "*", UNLED)
        for where in (
            "all are old: as a classic group/group_state",
            "all are old: as a classic group/members/*/metadata",
            "all are old: as a classic group/protocol_data",
            "all are old: listed/*/group_state",
            "the other one beats/error_code",
        )
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
        "",
        "Nor is what Kafka has nothing of: requests from API key 30000 on (push-protocol.md, broker-metadata.md),",
        "which ApiVersions does not list, and broker configs that are ours (`tag.*`, `unsupported.request.reply`,",
        "`sluicegate.*`). Tools are shown a group of the push protocol as a classic one. Nor are client quotas of the",
        "entity `connection-group` (connection-groups.md), whose members are ranges, too, which Kafka has none of: a",
        "filter that does not name the entity does not find them, and an `ip` quota is as in Kafka but that an address",
        "that a group holds has not the default of all others.",
        "",
        "Nor are defaults compared: where ours is another, broker-configuration.md has Kafka's beside it. Of groups",
        "these are `group.max.size` and `group.consumer.max.size`, 20,000 members where Kafka has no limit: what one",
        "group asks of its coordinator must not keep all others waiting. For the same reason a member of the classic",
        "protocol may say no more than `sluicegate.group.member.bytes.max` in",
        "`sluicegate.group.member.protocols.max` protocols, a consumer names no more topics than",
        "`sluicegate.group.member.topics.max` in either protocol, one group no more than",
        "`sluicegate.group.topics.max`, a leader assigns no more than",
        "`sluicegate.group.assignments.bytes.max`, a partition of `__consumer_offsets` takes",
        "`sluicegate.group.coordinator.groups.max` groups, and a regular expression has at most 4,096 characters,",
        "16 classes of Unicode and 256 KiB of memory. One request is answered once for each group that it names:",
        "OffsetFetch refuses a group that it names again (INVALID_REQUEST). Of what is free the assignor `uniform`",
        "gives a member first what has a replica in its rack; Kafka's does not look at racks. A member of KIP-848",
        "that takes part in a rebalance is told to send its next heartbeat after",
        "`sluicegate.group.consumer.rebalance.heartbeat.interval.ms` and hears of its partitions then; Kafka tells",
        "everybody `group.consumer.heartbeat.interval.ms`, five seconds.",
        "",
        "A connection that its client has closed before it is accepted counts in no connection rate and no number of",
        "connections; Kafka counts it in every rate. `connection.quota.count.abandoned=true` counts as Kafka does",
        "(connection-quotas.md).",
        "",
        "A broker that cannot read some offsets of a log answers a fetch of them with CORRUPT_MESSAGE, serves all",
        "others, and mends the log from other replicas (durability.md, Damaged files). Kafka sends the damaged bytes.",
        "For that a leader may leave the in-sync set by AlterPartition; Kafka's controller refuses that.",
        "",
        "One request names at most `sluicegate.request.items.max` items in all its arrays together, and its tagged",
        "fields are bounded (request-limits.md); Kafka has no such limit. A request beyond it is answered with",
        "INVALID_REQUEST, or its connection ends where its response has no place for that.",
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

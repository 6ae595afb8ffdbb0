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

NOT_SERVED = "The API or version serves functions that this broker does not have: share groups and Streams groups."
UNKNOWN_KEY = (
    "Kafka stores unknown keys and listeners. Here they are refused, so that a typing mistake does not look like a "
    "limit in force."
)
OTHER_KEYS = "Each broker has the keys of its own functions; strategy, limits and the HTTP listener exist only here."
KEYS_OF_OTHER_GROUPS = "Share groups and Streams groups are not served; their keys are shown only if they are set."
LISTENER_KEYS = "Kafka marks every key with a listener's prefix as read-only, even those that can be changed."
UNLED = (
    "A group that returns to the classic protocol always rebalances. Otherwise no member would know that it is the "
    "leader and has to watch the topics."
)
NAMED_AGAIN = (
    "A second mention of a group in OffsetFetch is refused: a request of a megabyte could request all offsets of one "
    "group tens of thousands of times."
)
TOO_LITTLE = (
    "A quota below 1, or below 0.001 for a share or for changes, is refused because it is practically 0. Kafka stores "
    "such a value and enforces a rate of 0."
)
DERIVED_TIME = (
    "A time that is derived from another key (hours from ms) is shown with its current value, under its own key."
)
AS_UNDERSTOOD = "Values are shown as they are parsed (without blanks and plus signs), in every response."
FIXED_HERE = "The event loop and the threads are created at the start, so these keys need a restart."
FIXED_LEVELS = "Levels of features are fixed: there is no older behaviour that a lower level could restore."
A_LIST = "A key that is a list in the file is also a list when it is altered."
UNKNOWN_OPERATION = "A wrong request gets an error that names the mistake; Kafka returns a different error."
TELLS_MORE = "An error describes the mistake; Kafka leaves this message empty."
WITH_FEWER_REPLICAS = (
    "The topic __consumer_offsets is created with as many replicas as there are brokers, up to "
    "offsets.topic.replication.factor. Kafka has no coordinators until there are so many brokers."
)
WITH_FEWER_TRANSACTION_REPLICAS = (
    "The topic __transaction_state is created with as many replicas as there are brokers, up to "
    "transaction.state.log.replication.factor. Kafka has no coordinators until there are so many brokers."
)
NO_START = "A partition that refused records does not report the start of the log."
ERRORS_OF_BATCHES = (
    "Unless sluicegate.record.validation=all, records are checked only if a rule concerns records (keys of compacted "
    "topics). Other errors concern the batch and name no record."
)
BATCHES = (
    "Unless sluicegate.record.validation=all, the broker checks the header of a batch, the lengths of its first four "
    "records, and the size that its compressed bytes state. It does not report other faults of records: it stores the "
    "batch, and consumers fail at it. librdkafka stops there without an error."
)
BROKERS_OWN = (
    "If clients have another listener, only limits with its own prefix apply to the listener of brokers and "
    "administrators. In Kafka it inherits the broker's numbers and the limits of addresses, which can lock out the "
    "administrator who has to remove them."
)
TWICE = "Each mention of the partition gets its own answer; Kafka merges them into one."
WHOLE_BATCHES = (
    "Only complete batches are sent; Kafka fills the rest of the limit with a part of the next one, which clients "
    "discard."
)

TABLE: Sequence[Wanted] = (
    Wanted("advertised ranges", "ranges/*", ENTRY, ABSENT, NOT_SERVED),
    *(
        Wanted("features", f"version */*_features/{name}.version", ENTRY, ABSENT, NOT_SERVED)
        for name in ("share", "streams")
    ),
    Wanted(
        "features",
        "version 4/supported_features/kraft.version",
        ENTRY,
        ABSENT,
        "This is the format of KRaft's set of voters; controllers here have another kind of journal.",
    ),
    *(
        Wanted("lists changed", f"made: {step}/results/*", "*", "*", UNKNOWN_OPERATION)
        for step in ("any operation", "any permission", "any type", "match")
    ),
    Wanted("features updated", "down, version */*", "*", "*", FIXED_LEVELS),
    Wanted(
        "odd frames",
        "client id that is no UTF-8*",
        "(answer)",
        "(connection closed)",
        "Text that is not UTF-8 closes the connection; Kafka replaces it with other characters.",
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
        "The message names the key and the allowed values; Kafka's shows the number.",
    ),
    Wanted(
        "config resources",
        "alter broker '*'/responses/*/error_*",
        "*",
        "*",
        "Any broker accepts a change for any registered broker; a broker of Kafka accepts only changes for itself.",
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
        "Every source of a listener's value is listed; Kafka leaves out the broker's own base value.",
    ),
    Wanted(
        "config precedence",
        "default's own/*/synonyms/*",
        ENTRY,
        ABSENT,
        "The cluster's default lists the keys that are set there; Kafka adds the base key of a listener's key.",
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
            "An empty cleanup.policy (KIP-1161) is not supported; retention.ms=-1 keeps records for ever.",
        )
        for where in ("policy empty/*", "validated: policy empty/*", "after policy empty/*")
    ),
    Wanted(
        "topic configs",
        "*segment too small/*/error_message",
        "*1048576",
        "*14",
        "Segments may be smaller than a megabyte, so that tests of retention are short.",
    ),
    Wanted(
        "topics made",
        "two that clash/*",
        "*",
        "*",
        "Names that clash in metrics are also refused within one request; Kafka checks only those of earlier requests.",
    ),
    Wanted(
        "topics seen",
        "by neither, version 1?/*error_code",
        "unknown_server_error",
        "invalid_request",
        "A request with neither name nor id of the topic is invalid; Kafka fails over it.",
    ),
    Wanted(
        "topics grown",
        "*/growing-too/error_code",
        "unknown_server_error",
        "policy_violation",
        "More partitions than one request may create are refused, as for new topics; Kafka fails over them.",
    ),
    Wanted("topics grown", "*/error_message", "None", "?*", TELLS_MORE),
    Wanted(
        "topics deleted",
        "by name once, by id once/*",
        "*",
        "*",
        "Each mention of the topic, by name or by id, gets its own answer with the error; Kafka merges them into one.",
    ),
    Wanted("partitions moved", "cancelled*/error_message", "None", "?*", TELLS_MORE),
    Wanted("partitions moved", "nothing/error_message", "", "None", "Without an error there is no message."),
    Wanted("lists and features", "producers/*/error_message", "*", "?*", TELLS_MORE),
    Wanted("coordinators", "version *", "*", "*", WITH_FEWER_REPLICAS),
    Wanted("coordinators", "of a transaction, version *", "*", "*", WITH_FEWER_TRANSACTION_REPLICAS),
    Wanted("records produced", "*/error_message", "None", "?*", TELLS_MORE),
    Wanted("records produced", "*/log_start_offset", "0", "-1", NO_START),
    Wanted("records produced", "*/record_errors/*", ENTRY, ABSENT, ERRORS_OF_BATCHES),
    Wanted(
        "records produced",
        "broker's timestamps/*",
        "*",
        "*",
        "Only the topic decides whether the broker sets timestamps; Kafka stores what the producer's batch states.",
    ),
    Wanted("records produced", "two records of no bytes, packed/*", "*", "*", BATCHES),
    Wanted(
        "records produced",
        "largest timestamp of tomorrow/*",
        "*",
        "*",
        "The broker checks the timestamps of the batch's header, which clients set; Kafka reads those of the records.",
    ),
    *(
        Wanted(
            "records produced",
            f"{step}/*/error_code",
            "unknown_server_error",
            "invalid_record",
            "The error tells the producer that its batch is wrong, not that the broker failed.",
        )
        for step in ("compression that is none", "unknown compression")
    ),
    *(
        Wanted(
            "records produced",
            f"{step}/*/error_code",
            "invalid_record",
            "corrupt_message",
            "A truncated batch is corrupt.",
        )
        for step in ("one byte", "sixty bytes", "length too large")
    ),
    Wanted(
        "records produced",
        "one batch and a half/*",
        "*",
        "*",
        "The broker refuses the bytes after the batch; Kafka drops them silently.",
    ),
    Wanted(
        "records produced",
        "producer without an epoch/*",
        "*",
        "*",
        "A producer id without an epoch cannot be fenced, so it is refused; Kafka stores it.",
    ),
    Wanted("records produced", "null records", "(no answer)", "(answer)", "Kafka fails and never answers."),
    Wanted("records of idempotent producers", "*/error_message", "None", "?*", TELLS_MORE),
    Wanted("records of idempotent producers", "*/log_start_offset", "0", "-1", NO_START),
    Wanted(
        "records of idempotent producers",
        "*/log_append_time",
        "(now)",
        "None",
        "A repeated batch gets the same answer as the first one, without a time that the broker did not set.",
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
        "A topic that is named without partitions is in the answer, without partitions; Kafka leaves it out.",
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
        "Both entries get an answer, the second one with the error; Kafka merges them into one.",
    ),
    Wanted(
        "quota changes",
        "*key twice/*/error_message",
        "Ignoring duplicate entity *",
        "Duplicate quota key *",
        "The message names the duplicate key; Kafka's names the entity.",
    ),
    Wanted(
        "quota changes",
        "*at once/*/error_message",
        "Ignoring duplicate entity *",
        "Duplicate quota key *",
        "The message names the duplicate key; Kafka's names the entity.",
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
        "A client without a readable subscription gets an error that says so; Kafka reports a fault of the broker.",
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


LIMITS_OF_REQUESTS = (
    "One request names at most `sluicegate.request.items.max` items in all its arrays together, and its tagged",
    "fields are limited (request-limits.md); Kafka has no such limit. A request beyond it is answered with",
    "INVALID_REQUEST, or its connection is closed if its response has no field for an error.",
    "",
    "Responses that clients do not read take at most `sluicegate.queued.max.response.bytes` of memory together.",
    "Beyond it, the broker closes the connections whose clients read most slowly, but no connection that keeps at",
    "most its fair share of that memory; Kafka has no such limit.",
)
"""Lines of the page on limits that Kafka does not have."""


def page() -> str:
    lines = [
        "# Differences from Apache Kafka",
        "",
        "Generated by `python -m tests.integration.differential.wanted` from the table in that module. A suite plays",
        "the same scripts to Apache Kafka 4.3.0 and to our broker and compares every field of every answer. The",
        "tables below list all differences, and each is wanted. `*` stands for any text. Error messages count as",
        "equal if ours contains the keys, addresses and names of Kafka's. Not compared are throttle times,",
        "descriptions of keys, and values that each node generates (ids, ports, epochs: only whether there is one).",
        "",
        "Parts that Kafka does not have are not compared either. These are requests from API key 30000 on",
        "(push-protocol.md, broker-metadata.md), which ApiVersions does not list, and our own broker configs",
        "(`tag.*`, `unsupported.request.reply`, `sluicegate.*`). Tools show a group of the push protocol as a classic",
        "one. The entity `connection-group` of client quotas (connection-groups.md) is not compared: its members may",
        "be ranges, which Kafka does not have. A filter that does not name this entity does not find it. An `ip`",
        "quota works as in Kafka, except that the default of all other addresses does not apply to an address in a",
        "group.",
        "",
        "The number of client ids that are measured separately is limited (`sluicegate.client.quota.buckets.max`,",
        "limit-clients.md); Kafka has no such limit. The time of a request counts for the client's next request, and",
        "the controller measures no request time. Kafka fills an answer to Fetch up to the quota with a part of the",
        "next batch, and throttles the client then; ours has whole batches only. `client.quota.callback.class` is not",
        "used.",
        "",
        "Defaults are not compared: if ours differs, broker-configuration.md has Kafka's beside it. For groups these",
        "are `group.max.size` and `group.consumer.max.size`, 20,000 members where Kafka has no limit. The work for",
        "one group must not delay all other groups of its coordinator. For the same reason there are more limits:",
        "",
        "- A member of the classic protocol sends at most `sluicegate.group.member.bytes.max` bytes of metadata, in",
        "  `sluicegate.group.member.protocols.max` protocols.",
        "- A consumer names at most `sluicegate.group.member.topics.max` topics in either protocol, and one group at",
        "  most `sluicegate.group.topics.max`.",
        "- A leader assigns at most `sluicegate.group.assignments.bytes.max` bytes.",
        "- A partition of `__consumer_offsets` has at most `sluicegate.group.coordinator.groups.max` groups.",
        "- A regular expression has at most 4,096 characters, 16 classes of Unicode and 256 KiB of memory.",
        "- One request gets one answer for each group that it names. OffsetFetch refuses a group that it names again",
        "  (INVALID_REQUEST).",
        "",
        "The assignor `uniform` gives a member first the free partitions with a replica in its rack; Kafka's does not",
        "consider racks. A member of KIP-848 that takes part in a rebalance is told to send its next heartbeat after",
        "`sluicegate.group.consumer.rebalance.heartbeat.interval.ms`, and gets its partitions then. Kafka's interval",
        "is always `group.consumer.heartbeat.interval.ms`, five seconds.",
        "",
        "A connection that its client closed before the broker accepts it counts in no connection rate and no number",
        "of connections; Kafka counts it in every rate. With `connection.quota.count.abandoned=true` it counts as in",
        "Kafka (connection-quotas.md).",
        "",
        "Batches are stored as their producers have sent them: `compression.type` has no effect. A segment is rolled",
        "`segment.ms` after it was begun also if no record arrives; Kafka waits for the next record.",
        "",
        "If a broker cannot read some offsets of a log, it answers a fetch of them with CORRUPT_MESSAGE. It serves",
        "all other offsets, and repairs the log from other replicas (durability.md, Damaged files). Kafka sends the",
        "damaged bytes. For the repair a leader may leave the in-sync set by AlterPartition; Kafka's controller",
        "refuses that.",
        "",
        *LIMITS_OF_REQUESTS,
        "",
        "After a failed authentication by SASL, the connection stays open for another",
        "`connection.failed.authentication.delay.ms` after the answer; Kafka closes it with the answer. An unknown",
        "user of SCRAM is refused after its proof, as with a wrong password; Kafka refuses it one message earlier. A",
        "client that has not authenticated within `sluicegate.sasl.timeout.ms` is disconnected. Tokens without a",
        "signature, Kerberos and delegation tokens are not supported (authenticate-clients.md).",
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

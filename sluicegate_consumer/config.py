"""The settings and all limits of a consumer. Names end with their units."""

import json
import math
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal

from sluicegate_consumer.errors import SettingsError
from sluicegate_consumer.security.credentials import SaslPassword, SaslToken

STREAMS_MAX = 100
"""Maximum number of streams of one subscription; the coordinator has the same limit."""
_ID_BYTES_MAX = 1024
"""A coordinator closes the connection for longer IDs, without giving a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a consumer. Their defaults suit most applications."""

    consumer_id: str | None = None
    """Id of the consumer; None for host name, process ID and a random number. IDs in a group must differ."""
    client_id: str = "sluicegate-consumer"
    """The client ID of the connections, as brokers see it."""
    tls: ssl.SSLContext | None = None
    """TLS context of the connections; None for no TLS.

    The context must check certificates and host names, as `ssl.create_default_context()` does.
    """
    sasl: SaslPassword | SaslToken | None = None
    """Credentials for SASL; None for no authentication.

    Without `tls`, PLAIN and OAUTHBEARER send the password or token in clear text.
    """
    session_timeout_s: float = 6.0
    """Seconds of silence after which the coordinator is suspected to be dead.

    The coordinator gives up a silent consumer after four thirds of this time. Brokers have
    `group.min.session.timeout.ms`.
    """
    auto_commit: bool = True
    """Whether the coordinator commits acknowledged offsets, which the consumer sends to it.

    False: use `Consumer.commit`.
    """
    acknowledge: Literal["explicit", "automatic"] = "explicit"
    """How records are acknowledged.

    automatic: a record is acknowledged when the application asks for the next record. explicit: by
    `Record.acknowledge`.
    """
    auto_offset_reset: Literal["earliest", "latest"] = "earliest"
    """Where reading begins in a partition whose offset is unknown or out of range."""
    isolation: Literal["read_uncommitted", "read_committed"] = "read_uncommitted"
    close_by: Literal["commit", "pings"] = "commit"
    """How the last offsets reach the coordinator when the consumer closes.

    commit: by OffsetCommit, whose response confirms them. pings: as in the protocol draft, with the response to the
    next ping; the ping after that confirms them. This takes up to two thirds of a session.
    """

    callback_timeout_s: float = 2.0
    """Time limit of a listener method in seconds.

    The limit is below two thirds of a session, in which StopFetcher has to be answered.
    """
    connect_timeout_s: float = 5.0
    request_timeout_s: float = 10.0
    """Time limit of a broker's response in seconds, in addition to the wait of a fetch."""
    backoff_min_s: float = 0.05
    backoff_max_s: float = 2.0
    """Longest wait between attempts in seconds.

    The wait is doubled each time, then reduced at random by up to a half. It stays short while brokers report that the
    coordinator is not there yet, or while its old address refuses connections.
    """
    corrupt_retries_max: int = 3
    """Number of fetches repeated because of a wrong checksum before the error is raised."""

    fetch_wait_s: float = 0.5
    """Seconds that a broker may wait for records."""
    fetch_wait_crowded_s: float = 0.05
    """Seconds in place of `fetch_wait_s` while partitions without buffer space are left out.

    The next fetch should include these partitions soon.
    """
    fetch_bytes_max: int = 8 << 20
    """Maximum bytes of one response, unless the first batch is larger."""
    partition_fetch_bytes_max: int = 1 << 20
    """Maximum bytes of one partition in one response, unless the first batch is larger."""
    partition_prefetch_bytes_max: int = 2 << 20
    """Bytes waiting to be delivered from which a partition is not fetched."""
    prefetch_bytes_max: int = 64 << 20
    """Limit of waiting bytes over all partitions, in equal shares for the streams. One response may exceed it."""
    frame_bytes_max: int = 128 << 20
    """Maximum size of any frame that a broker sends. A larger frame ends the connection."""
    unpacked_bytes_max: int = 128 << 20
    """Maximum size of a batch after decompression."""
    slice_s: float = 0.002
    """Seconds of delivering records, after which other tasks of the event loop run."""
    sync_records_max: int = 200
    """Maximum number of records handed over at once to the thread of a `SyncConsumer`."""

    def __post_init__(self) -> None:
        self._check_types()
        self._check_security()
        if self.consumer_id is not None:
            identifier("consumer_id", self.consumer_id)
        if not 0 < self.session_timeout_s * 1000 <= 0x7FFFFFFF:
            raise SettingsError(f"session_timeout_s={self.session_timeout_s} is not a valid session timeout")
        if not 0 < self.callback_timeout_s < self.session_timeout_s * 2 / 3:
            raise SettingsError(
                f"callback_timeout_s={self.callback_timeout_s} is not below two thirds of "
                f"session_timeout_s={self.session_timeout_s}, the time within which the coordinator expects a "
                "response"
            )
        for name in self.__slots__:
            value = getattr(self, name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if is_number and not 0 < value < math.inf and (name, value) != ("corrupt_retries_max", 0):
                raise SettingsError(f"{name}={value} is not a valid limit")
        if self.acknowledge not in ("explicit", "automatic"):
            raise SettingsError(f"acknowledge={self.acknowledge!r} is neither explicit nor automatic")
        if self.auto_offset_reset not in ("earliest", "latest"):
            raise SettingsError(f"auto_offset_reset={self.auto_offset_reset!r} is neither earliest nor latest")
        if self.close_by not in ("commit", "pings"):
            raise SettingsError(f"close_by={self.close_by!r} is neither commit nor pings")
        if self.isolation not in ("read_uncommitted", "read_committed"):
            raise SettingsError(f"isolation={self.isolation!r} is neither read_uncommitted nor read_committed")

    def _check_security(self) -> None:
        """Check `tls` and `sasl`. The error does not show what was given: it may be a password."""
        if self.tls is not None and not isinstance(self.tls, ssl.SSLContext):
            raise SettingsError("tls must be an ssl.SSLContext, such as ssl.create_default_context() returns")
        if self.tls is not None and not (self.tls.check_hostname and self.tls.verify_mode is ssl.CERT_REQUIRED):
            raise SettingsError(
                "tls must check certificates and host names: set verify_mode=ssl.CERT_REQUIRED and check_hostname=True"
            )
        if self.sasl is not None and not isinstance(self.sasl, SaslPassword | SaslToken):
            raise SettingsError("sasl must be a SaslPassword or a SaslToken")

    def _check_types(self) -> None:
        """Check the types of settings that have a default: `auto_commit="false"` would be true."""
        for field in fields(self):
            value, default = getattr(self, field.name), field.default
            wanted = (int, float) if isinstance(default, float) else type(default)
            is_wrong = not isinstance(value, wanted) or isinstance(value, bool) is not isinstance(default, bool)
            if default is not None and is_wrong:
                raise SettingsError(
                    f"{field.name}={value!r} has the type {type(value).__name__}, which differs from that of the "
                    f"default, {default!r}"
                )


def identifier(name: str, value: str) -> str:
    """Return `value` if it is a valid name of a group or a consumer. Raises SettingsError."""
    if not isinstance(value, str) or not 0 < len(value.encode(errors="replace")) <= _ID_BYTES_MAX:
        raise SettingsError(f"{name}={value!r:.60} is not a text of 1 to {_ID_BYTES_MAX} bytes")
    return value


def topic_count(topics: Sequence[str] | Mapping[str, int] | None, pattern: str | None, streams: int) -> str:
    """Return the subscription in the protocol's format.

    A pattern that begins with `!` names the topics not to read.
    """
    if (topics is None) == (pattern is None):
        raise SettingsError("give either topics or a pattern")
    if isinstance(topics, str):
        raise SettingsError("topics must be a list of names")
    if pattern is not None and not pattern.removeprefix("!"):
        raise SettingsError("the pattern is empty, and no topic has an empty name")
    if isinstance(topics, Mapping) and streams != 1:
        raise SettingsError(f"streams={streams} is set, but topics also has numbers of streams: set one of them")
    counted = dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics or (), streams)
    if pattern is None and not counted:
        raise SettingsError("topics is empty")
    for topic in counted:
        if not isinstance(topic, str):
            raise SettingsError(f"topics has {topic!r}, which is not the name of a topic")
    for number in (streams, *counted.values()):
        if not isinstance(number, int) or not 1 <= number <= STREAMS_MAX:
            raise SettingsError(f"the number of streams must be 1 to {STREAMS_MAX}, not {number}")
    if pattern is None:
        return json.dumps(counted, separators=(",", ":"))
    return f"!{streams}!{pattern[1:]}" if pattern.startswith("!") else f"*{streams}*{pattern}"


def addresses(bootstrap_servers: str | Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Return host and port of each bootstrap server.

    `bootstrap_servers` is `host:port`, a list of such texts, or a text that separates them with commas.
    """
    named = bootstrap_servers.split(",") if isinstance(bootstrap_servers, str) else bootstrap_servers
    found = []
    for each in named:
        host, colon, port = each.strip().rpartition(":")
        if not (host and colon and port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
            raise SettingsError(f"{each!r} in bootstrap_servers is not host:port")
        found.append((host.strip("[]"), int(port)))
    if not found:
        raise SettingsError("bootstrap_servers has no host:port")
    return tuple(found)

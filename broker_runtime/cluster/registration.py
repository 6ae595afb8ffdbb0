"""The content of a broker's registration, and the meaning of the controller's refusals. Pure (KIP-631)."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from broker_runtime.cluster.self_description import SILENT, SelfDescription
from broker_runtime.config import Endpoint
from broker_runtime.errors import ErrorCode, KafkaError


class MembershipError(Exception):
    """Error that ends the process: this broker cannot be, or is no longer, a member of its cluster."""


class RegistrationTimeoutError(MembershipError):
    """Error if the controller accepts no registration within initial.broker.registration.timeout.ms."""


class ReplacedError(MembershipError):
    """Error if another live process is registered with this broker's id."""


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """The data that a broker registers with. The incarnation is that of this process."""

    broker_id: int
    cluster_id: str
    incarnation: UUID
    rack: str | None
    endpoints: Sequence[Endpoint]
    features: Sequence[tuple[str, int, int]] = ()
    """(name, lowest, highest level) of each feature that this broker supports."""
    description: SelfDescription = SILENT

    def registration(self, previous_epoch: int) -> dict[str, object]:
        """Return the content of the registration request.

        `previous_epoch` is the newest epoch since which nothing was lost, or -1.
        """
        return {
            "broker_id": self.broker_id,
            "cluster_id": self.cluster_id,
            "incarnation_id": self.incarnation,
            "listeners": [
                {"name": e.listener, "host": e.host, "port": e.port, "security_protocol": int(e.security_protocol)}
                for e in self.endpoints
            ],
            "features": [
                {"name": name, "min_supported_version": low, "max_supported_version": high}
                for name, low, high in self.features
            ],
            "rack": self.rack,
            "is_migrating_zk_broker": False,
            "log_dirs": [],
            "previous_broker_epoch": previous_epoch,
            "protocol_version_min": self.description.protocol_versions[0],
            "protocol_version_max": self.description.protocol_versions[1],
            "broker_tags": [{"key": name, "value": value} for name, value in self.description.tags],
        }


def check_not_final(error: KafkaError, broker_id: int) -> None:
    """Raise MembershipError, which ends the process, for a refusal that another attempt would meet, too."""
    if error.code == ErrorCode.INCONSISTENT_CLUSTER_ID:
        raise MembershipError(f"this broker's data belongs to another cluster: {error}") from error
    if error.code in (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_REGISTRATION):
        raise MembershipError(f"the controller refuses broker {broker_id}: {error}") from error


def replaced(broker_id: int) -> ReplacedError:
    return ReplacedError(
        f"another process registered with broker id {broker_id} while this one had no session; this process exits, "
        "so that only one serves (give each broker its own node.id)"
    )


def explained(error: KafkaError, broker_id: int, session_timeout_s: float) -> str:
    if error.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION:
        return (
            f"another process is registered with broker id {broker_id} and sent a heartbeat within "
            f"broker.session.timeout.ms ({session_timeout_s:g} s); if it was this broker before it was killed, its "
            "session ends soon"
        )
    return str(error)

"""Decide about ACLs that clients create and delete (KIP-801). Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from broker_runtime.controller.capacity import check_records
from broker_runtime.controller.clients.matching_acls import MatchingAcls
from broker_runtime.errors import ErrorCode, KafkaError, detached
from broker_runtime.metadata.areas.acls import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.security.acls.model import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
)
from broker_runtime.slicing.steps import Steps, drain, each

_RESOURCES = frozenset(kind for kind in AclResource if kind > AclResource.ANY)
_OPERATIONS = frozenset(kind for kind in AclOperation if kind > AclOperation.ANY)


@dataclass(frozen=True, slots=True)
class AclLimits:
    """Limits of a cluster's ACLs: their number, and the bytes of all their texts."""

    acls_max: int
    text_bytes_max: int

    def check(self, acls: int, text_bytes: int) -> None:
        """Check the number of ACLs, and the bytes of their texts. Raises KafkaError(POLICY_VIOLATION)."""
        if acls > self.acls_max:
            raise _too_many(f"{acls} ACLs; at most {self.acls_max} are allowed (sluicegate.acls.max)")
        if text_bytes > self.text_bytes_max:
            raise _too_many(
                f"ACLs with {text_bytes} bytes of names, principals and hosts; at most {self.text_bytes_max} are "
                "allowed (sluicegate.acls.text.bytes.max)"
            )


def _too_many(what: str) -> KafkaError:
    text = f"The cluster would have {what}. Delete unused ACLs, or use ACLs of prefixes."
    return KafkaError(ErrorCode.POLICY_VIOLATION, text)


def create_acls(
    wanted: Sequence[Acl], image: MetadataImage, new_id: Callable[[], UUID], limits: AclLimits
) -> Steps[tuple[Sequence[MetadataRecord], Sequence[KafkaError | None]]]:
    """Return the records for ACLs that do not exist yet, and for each wanted ACL its error or None.

    Raises KafkaError if the request has too many ACLs, or the cluster would.
    """
    records: list[MetadataRecord] = []
    results: list[KafkaError | None] = []
    seen: set[Acl] = set()
    text_bytes = image.acls.text_bytes
    for acl in wanted:
        try:
            check_acl(acl)
        except KafkaError as error:
            results.append(detached(error))
        else:
            if acl not in seen and image.acls.id_of(acl) is None:
                seen.add(acl)
                text_bytes += acl.text_bytes
                records.append(AccessControlEntryRecord(new_id(), *acl))
            results.append(None)
        yield
    check_records(len(records))
    if records:
        limits.check(len(image.acls) + len(records), text_bytes)
    return records, results


def check_acl(acl: Acl) -> None:
    """Check one ACL in Kafka's order. Raises KafkaError(INVALID_REQUEST)."""
    if acl.resource == AclResource.CLUSTER and acl.name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.name:
        raise _invalid("Invalid empty resource name")
    if acl.resource not in _RESOURCES:
        raise _invalid(f"Invalid resourceType {_named(AclResource, acl.resource)}")
    if acl.pattern not in (AclPattern.LITERAL, AclPattern.PREFIXED):
        raise _invalid(f"Invalid patternType {_named(AclPattern, acl.pattern)}")
    if acl.operation not in _OPERATIONS:
        raise _invalid(f"Invalid operation {_named(AclOperation, acl.operation)}")
    if acl.permission not in (AclPermission.DENY, AclPermission.ALLOW):
        raise _invalid(f"Invalid permissionType {_named(AclPermission, acl.permission)}")
    if ":" not in acl.principal:
        raise _invalid(
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal type from "
            "the principal name)"
        )


def delete_acls(
    filters: Sequence[AclFilter], image: MetadataImage
) -> Steps[tuple[Sequence[MetadataRecord], Sequence[Sequence[Acl]]]]:
    """Return the records that remove the matching ACLs, and the ACLs that each filter matches.

    Several filters may match the same ACL. Raises KafkaError if more than 10,000 match, or the search would take long.
    """
    matching = MatchingAcls(image.acls)
    results = yield from matching.find(filters)
    ids = (image.acls.id_of(acl) for acl in matching.distinct)
    records = yield from each((acl_id for acl_id in ids if acl_id is not None), RemoveAccessControlEntryRecord)
    yield from drain(matching.distinct)
    return records, results


def _named(kind: type[AclResource | AclPattern | AclOperation | AclPermission], number: int) -> str:
    return kind(number).name if number in set(kind) else "UNKNOWN"


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)

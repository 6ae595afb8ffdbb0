"""AlterUserScramCredentials and DescribeUserScramCredentials (KIP-554). Brokers never get or return a password."""

from collections.abc import Collection, Mapping

from kio.schema.alter_user_scram_credentials.v0.request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kio.schema.alter_user_scram_credentials.v0.response import AlterUserScramCredentialsResponse
from kio.schema.describe_user_scram_credentials.v0.request import DescribeUserScramCredentialsRequest, UserName
from kio.schema.describe_user_scram_credentials.v0.response import DescribeUserScramCredentialsResponse
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8, i32

from sluicegate_operator.kafka_admin.connecting.exchange import Exchange
from sluicegate_operator.kafka_admin.errors import check, only
from sluicegate_operator.kafka_admin.security.scram import ScramCredential, ScramMechanism

Credentials = Mapping[str, Mapping[ScramMechanism, int]]
"""The numbers of iterations of users' credentials, by mechanism, by user."""


def describe(users: Collection[str]) -> Exchange[DescribeUserScramCredentialsResponse, Credentials]:
    """Return the request that describes the credentials of users. Unknown users have none.

    Each name may be given once.
    """
    request = DescribeUserScramCredentialsRequest(users=tuple(UserName(name=user) for user in users))

    def read(reply: DescribeUserScramCredentialsResponse) -> dict[str, dict[ScramMechanism, int]]:
        check(reply.error_code, reply.error_message, "describing the credentials of users")
        known = {int(one) for one in ScramMechanism}
        found: dict[str, dict[ScramMechanism, int]] = {user: {} for user in users}
        for result in reply.results:
            if result.error_code is not ErrorCode.resource_not_found:
                check(result.error_code, result.error_message, f"describing the credentials of user {result.user}")
            found[result.user] = {
                ScramMechanism(info.mechanism): info.iterations
                for info in result.credential_infos
                if info.mechanism in known
            }
        return found

    return Exchange(request, DescribeUserScramCredentialsResponse, read)


def upsert(user: str, credential: ScramCredential) -> Exchange[AlterUserScramCredentialsResponse, None]:
    """Return the request that sets a user's credential of one mechanism, and replaces an earlier credential."""
    upsertion = ScramCredentialUpsertion(
        name=user,
        mechanism=i8(credential.mechanism),
        iterations=i32(credential.iterations),
        salt=credential.salt,
        salted_password=credential.salted_password,
    )
    request = AlterUserScramCredentialsRequest(deletions=(), upsertions=(upsertion,))
    subject = f"setting the {credential.mechanism.label} credential of user {user}"

    def read(reply: AlterUserScramCredentialsResponse) -> None:
        result = only(reply.results, subject)
        check(result.error_code, result.error_message, subject)

    return Exchange(request, AlterUserScramCredentialsResponse, read)


def delete(user: str, mechanism: ScramMechanism) -> Exchange[AlterUserScramCredentialsResponse, None]:
    """Return the request that deletes a user's credential of one mechanism. A missing credential is not an error."""
    deletion = ScramCredentialDeletion(name=user, mechanism=i8(mechanism))
    request = AlterUserScramCredentialsRequest(deletions=(deletion,), upsertions=())
    subject = f"deleting the {mechanism.label} credential of user {user}"

    def read(reply: AlterUserScramCredentialsResponse) -> None:
        result = only(reply.results, subject)
        if result.error_code is not ErrorCode.resource_not_found:
            check(result.error_code, result.error_message, subject)

    return Exchange(request, AlterUserScramCredentialsResponse, read)

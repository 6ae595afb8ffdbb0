"""How the operator connects to the brokers of an external cluster: TLS and authentication, from Secrets.

The fields have Strimzi's names and shapes, so that manifests of its clients can be copied.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sluicegate_operator.api.models.parts.audit_landing import object_name_rule
from sluicegate_operator.api.schema.rules import Model, Rule

SecretKey = Annotated[str, Field(min_length=1, max_length=253)]
"""Key in the data of a Secret."""
USERNAME_MAX = 249

_NEEDED = {
    "tls": "certificateAndKey",
    "scram-sha-256": "passwordSecret",
    "scram-sha-512": "passwordSecret",
    "plain": "passwordSecret",
    "oauth": "accessToken",
}
"""Field that each type of authentication needs."""
_ATTRIBUTES = {
    "certificateAndKey": "certificate_and_key",
    "passwordSecret": "password_secret",
    "accessToken": "access_token",
}
WITH_PASSWORD = tuple(type_ for type_, field in _NEEDED.items() if field == "passwordSecret")


class TrustedCertificate(Model):
    rules: ClassVar = (object_name_rule("secretName", "Secret"),)

    secret_name: str = Field(min_length=1, max_length=253)
    """Name of a Secret in the same namespace."""
    certificate: SecretKey = "ca.crt"
    """Key of the Secret whose value is one certificate or several, in PEM."""


class ExternalTls(Model):
    trusted_certificates: tuple[TrustedCertificate, ...] | None = Field(default=None, min_length=1, max_length=16)
    """Certificates of the authorities that verify the brokers' certificates; those of the operator's image if
    absent. The names in a broker's certificate must include the host of its listener."""


class PasswordSecret(Model):
    rules: ClassVar = (object_name_rule("secretName", "Secret"),)

    secret_name: str = Field(min_length=1, max_length=253)
    """Name of a Secret in the same namespace."""
    password: SecretKey = "password"
    """Key of the Secret whose value is the password."""


class CertificateAndKey(Model):
    rules: ClassVar = (object_name_rule("secretName", "Secret"),)

    secret_name: str = Field(min_length=1, max_length=253)
    """Name of a Secret in the same namespace."""
    certificate: SecretKey = "tls.crt"
    """Key of the Secret whose value is the client's certificate chain in PEM."""
    key: SecretKey = "tls.key"
    """Key of the Secret whose value is the unencrypted private key in PEM."""


class AccessToken(Model):
    rules: ClassVar = (object_name_rule("secretName", "Secret"),)

    secret_name: str = Field(min_length=1, max_length=253)
    """Name of a Secret in the same namespace."""
    key: SecretKey = "token"
    """Key of the Secret whose value is the access token. The operator reads it again before it expires."""


def _field_rule(field: str, attribute: str) -> Rule:
    """Return the rule that the types that need the field have it, and no other type."""
    types = tuple(type_ for type_, needed in _NEEDED.items() if needed == field)
    return Rule(
        cel=f"(self.type in [{', '.join(repr(type_) for type_ in types)}]) == has(self.{field})",
        message=f"{field} is required for type {' or '.join(types)}, and only allowed there: set both or neither",
        allows=lambda model: (model.type in types) == (getattr(model, attribute) is not None),
        field=field,
    )


class ExternalAuthentication(Model):
    rules: ClassVar = (
        *(_field_rule(field, attribute) for field, attribute in _ATTRIBUTES.items()),
        Rule(
            cel=f"(self.type in [{', '.join(repr(type_) for type_ in WITH_PASSWORD)}]) == has(self.username)",
            message=f"username is required for type {' or '.join(WITH_PASSWORD)}, and only allowed there: set both or"
            " neither",
            allows=lambda model: (model.type in WITH_PASSWORD) == (model.username is not None),
            field="username",
        ),
    )

    type: Literal["tls", "scram-sha-256", "scram-sha-512", "plain", "oauth"]
    """tls presents a client certificate. scram-sha-256, scram-sha-512 and plain authenticate a user by a password,
    oauth by an access token (SASL OAUTHBEARER). plain and oauth send their secret to the broker: use them with tls."""
    username: str | None = Field(default=None, min_length=1, max_length=USERNAME_MAX)
    """Name of the user; only for types with a password."""
    password_secret: PasswordSecret | None = None
    """The password of the user."""
    certificate_and_key: CertificateAndKey | None = None
    """The client certificate."""
    access_token: AccessToken | None = None
    """The access token."""


class ExternalAccess(Model):
    """The operator's connections to an external cluster."""

    rules: ClassVar = (
        Rule(
            cel="!has(self.authentication) || self.authentication.type != 'tls' || has(self.tls)",
            message="authentication.type tls needs tls: set tls, and its trustedCertificates if the brokers'"
            " certificates are of a private authority",
            allows=lambda model: (
                model.authentication is None or model.authentication.type != "tls" or model.tls is not None
            ),
            field="authentication",
        ),
    )

    tls: ExternalTls | None = None
    """Connects with TLS; without it connections are not encrypted."""
    authentication: ExternalAuthentication | None = None
    """Authenticates the operator; without it the listener must accept anonymous clients."""

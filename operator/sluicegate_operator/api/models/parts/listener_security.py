"""TLS and authentication of a BrokerListener."""

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sluicegate_operator.api.models.parts.audit_landing import object_name_rule
from sluicegate_operator.api.schema.rules import Model, Rule

URL_PATTERN = "^https://[^ ,#]+$"
DEFAULT_AUDIENCE = "sluicegate"
_OAUTH_ONLY = {"jwksEndpointUri": "jwks_endpoint_uri", "userNameClaim": "user_name_claim"}
_OF_TOKENS = {"validIssuerUri": "valid_issuer_uri", "audiences": "audiences"}
TOKENS = ("oauth", "serviceAccount")
SASL = ("scram-sha-512", *TOKENS)
SESSION_MAX_S = 86_400 * 365


class ListenerTls(Model):
    rules: ClassVar = (
        object_name_rule("secretName", "Secret"),
        object_name_rule("clientCaSecretName", "Secret"),
    )

    secret_name: str = Field(min_length=1, max_length=253)
    """Name of a Secret in the same namespace with the brokers' certificate: keys tls.crt and tls.key, as cert-manager
    writes them. The certificate must name the hosts that brokers advertise. A changed Secret is used for new
    connections, and restarts no broker."""
    client_ca_secret_name: str | None = Field(default=None, min_length=1, max_length=253)
    """Name of a Secret in the same namespace whose key ca.crt has the authorities that verify client certificates; the
    key ca.crt of secretName if absent."""
    client_auth: Literal["None", "Requested", "Required"] | None = None
    """Whether clients present a certificate. The default is Required with authentication.type tls, and None
    otherwise."""


def _only_for(field: str, attribute: str, types: tuple[str, ...]) -> Rule:
    listed = ", ".join(repr(type_) for type_ in types)
    *first, last = types
    named = f"{', '.join(first)} and {last}" if first else last
    return Rule(
        cel=f"!has(self.{field}) || self.type in [{listed}]",
        message=f"{field} is only for type {named}: remove it, or change type",
        allows=lambda model: getattr(model, attribute) is None or model.type in types,
        field=field,
    )


class ListenerAuthentication(Model):
    rules: ClassVar = (
        *(_only_for(field, attribute, ("oauth",)) for field, attribute in _OAUTH_ONLY.items()),
        *(_only_for(field, attribute, TOKENS) for field, attribute in _OF_TOKENS.items()),
        _only_for("maxSecondsWithoutReauthentication", "max_seconds_without_reauthentication", SASL),
        Rule(
            cel="self.type != 'oauth' || has(self.jwksEndpointUri)",
            message="type oauth needs jwksEndpointUri, the address of the issuer's public keys",
            allows=lambda model: model.type != "oauth" or model.jwks_endpoint_uri is not None,
            field="jwksEndpointUri",
        ),
        Rule(
            cel=f"!has(self.jwksEndpointUri) || self.jwksEndpointUri.matches('{URL_PATTERN}')",
            message="jwksEndpointUri must be an https:// address, because keys from http:// could be forged",
            allows=lambda model: (
                model.jwks_endpoint_uri is None or re.fullmatch(URL_PATTERN, model.jwks_endpoint_uri) is not None
            ),
            field="jwksEndpointUri",
        ),
    )

    type: Literal["tls", "scram-sha-512", "oauth", "serviceAccount"]
    """tls names clients by the subject of their certificate. scram-sha-512 verifies passwords of KafkaUsers. oauth
    verifies tokens (SASL OAUTHBEARER) by the keys of their issuer. serviceAccount verifies tokens of Kubernetes service
    accounts: the user is system:serviceaccount:NAMESPACE:NAME."""
    jwks_endpoint_uri: str | None = Field(default=None, min_length=1, max_length=1024)
    """https:// address of the issuer's public keys (JWKS); only for oauth."""
    valid_issuer_uri: str | None = Field(default=None, min_length=1, max_length=1024)
    """Issuer (iss) that tokens must have; any if absent."""
    audiences: (
        Annotated[tuple[Annotated[str, Field(min_length=1, max_length=253)], ...], Field(max_length=16)] | None
    ) = None
    """Audiences (aud), of which a token must have one. The default for serviceAccount is sluicegate."""
    user_name_claim: str | None = Field(default=None, min_length=1, max_length=253)
    """Claim that names the user; sub if absent. Only for oauth."""
    max_seconds_without_reauthentication: int | None = Field(default=None, ge=1, le=SESSION_MAX_S)
    """Seconds after which a connected client must authenticate again (KIP-368), so that a deleted user or a rotated
    password ends its sessions. Connections of clients that cannot do so end. No limit if absent; a token always ends
    its session when it expires. Not for type tls."""

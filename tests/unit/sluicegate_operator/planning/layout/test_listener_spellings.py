"""The authentication of a listener in another spelling of the same values restarts no broker."""

import pytest

from sluicegate_operator.api import BrokerListener, parse_resource
from sluicegate_operator.planning.layout.canonical import canonical_properties
from sluicegate_operator.planning.layout.listener_security import security_properties
from tests.support.manifests.bad_manifests import Json
from tests.support.manifests.listener_manifests import authenticating

KEYS = "https://id.example.org/Keys"
_CASE, _PORT = ({"jwksEndpointUri": uri} for uri in (KEYS.lower(), KEYS.replace("org/", "org:444/")))


@pytest.mark.parametrize(
    ("type_", "one", "same", "other"),
    [
        ("oauth", {}, {"userNameClaim": "sub"}, {"userNameClaim": "email"}),
        ("oauth", {"audiences": ["a", "b"]}, {"audiences": ["b", "a", "b"]}, {"audiences": ["a", "c"]}),
        ("serviceAccount", {}, {"audiences": ["sluicegate"]}, {"audiences": ["other"]}),
        ("serviceAccount", {"audiences": ["a", "b"]}, {"audiences": ["b", "a"]}, {"audiences": ["a"]}),
        ("oauth", {"audiences": ["a", "b"]}, {"audiences": [" b", "a "]}, {"audiences": ["a", "B"]}),
        ("oauth", {"jwksEndpointUri": KEYS}, {"jwksEndpointUri": KEYS.replace("id.example", "ID.Example")}, _CASE),
        ("oauth", {"jwksEndpointUri": KEYS}, {"jwksEndpointUri": KEYS.replace("org/", "org:443/")}, _PORT),
        ("oauth", {"jwksEndpointUri": KEYS}, {"jwksEndpointUri": KEYS.replace("org/", "org:0443/")}, _PORT),
        ("oauth", {"jwksEndpointUri": KEYS}, {"jwksEndpointUri": KEYS.replace("org/", "org:/")}, _PORT),
        ("oauth", {"jwksEndpointUri": KEYS}, {"jwksEndpointUri": KEYS.replace("K", "%4b")}, _CASE),
        (
            "oauth",
            {"jwksEndpointUri": f"{KEYS}%2fa"},
            {"jwksEndpointUri": f"{KEYS}%2Fa"},
            {"jwksEndpointUri": f"{KEYS}/a"},
        ),
        (
            "oauth",
            {"jwksEndpointUri": "https://id.example.org"},
            {"jwksEndpointUri": "https://id.example.org/"},
            {"jwksEndpointUri": "https://id.example.org/a/"},
        ),
        (
            "oauth",
            {"jwksEndpointUri": "https://[2001:db8::1]:8443/a"},
            {"jwksEndpointUri": "https://[2001:DB8:0:0::1]:8443/a"},
            {"jwksEndpointUri": "https://[2001:db8::2]:8443/a"},
        ),
        (
            "oauth",
            {"jwksEndpointUri": KEYS, "validIssuerUri": "https://id"},
            {"jwksEndpointUri": KEYS, "validIssuerUri": "https://id", "userNameClaim": "sub"},
            {"jwksEndpointUri": KEYS, "validIssuerUri": "https://id/"},
        ),
    ],
    ids=[
        "default claim",
        "order of audiences",
        "default audience",
        "order of an account's audiences",
        "spaces around audiences",
        "case of a host",
        "default port",
        "zeros before a port",
        "no port",
        "encoded letter",
        "case of an encoding",
        "empty path",
        "IPv6 address",
        "issuer, which tokens contain",
    ],
)
def test_another_spelling_of_a_listeners_authentication_restarts_nothing(
    type_: str, one: Json, same: Json, other: Json
) -> None:
    def secured(fields: Json) -> BrokerListener:
        where = {"jwksEndpointUri": KEYS} if type_ == "oauth" else {}
        found = parse_resource(authenticating(type_, **where | fields))
        assert isinstance(found, BrokerListener)
        return found

    first, second, third = (canonical_properties(security_properties([secured(each)])) for each in (one, same, other))
    assert first == second
    assert first != third

"""Texts of files and of configuration: PEM, certificates, rules for names, properties, login modules, addresses."""

from collections.abc import Iterable
from contextlib import suppress
from functools import cache

from broker_runtime.config.declaring.addresses import canonical_address, networks, per_ip_overrides
from broker_runtime.config.declaring.properties import parse_properties
from broker_runtime.errors import ConfigError
from broker_runtime.security.tls.certificate import certificate_info, subject_of
from broker_runtime.security.tls.mapping_rules import MappingRules, NoRuleError
from broker_runtime.security.tls.pem import certificates, private_key
from kafka_bytes.errors import FormatError
from kafka_bytes.properties import parse_properties as parse_shared
from kafka_bytes.properties import render_properties
from kafka_bytes.sasl.login import login_module
from tests.fuzz.target import Target, text_of
from tests.support.tls.authority import Authority

_SUBJECT = "CN=kafka1,OU=Ops,O=Sluice\\, Inc.,C=DE"


@cache
def _authority() -> Authority:
    return Authority()


def _pem(data: bytes) -> None:
    text = text_of(data)
    for read in (certificates, private_key):
        with suppress(ConfigError):
            read(text, "ssl.keystore.location")


def _certificate(data: bytes) -> None:
    with suppress(ValueError):
        certificate_info(data)
    with suppress(ValueError):
        subject_of(data)


def _certificate_seeds() -> Iterable[bytes]:
    yield _authority().issue(_SUBJECT, "127.0.0.1", "localhost").der


_RULES = ("DEFAULT", "RULE:^CN=(.*?),.*$/$1@x/L, RULE:^.*O=([^,]+).*$/$1/U,DEFAULT", "RULE:a\\/b/c\\/d/")


def _rules(data: bytes) -> None:
    """Rules of an administrator. They are not matched: a pattern may take any time, as in Apache Kafka."""
    with suppress(ConfigError):
        MappingRules(text_of(data))


def _subject(data: bytes) -> None:
    """The subject of a client's certificate, for usual rules."""
    for rules in _RULES:
        with suppress(NoRuleError):
            MappingRules(rules).name(text_of(data))


def _properties(data: bytes) -> None:
    text = text_of(data)
    try:
        found = parse_properties(text, "server.properties")
    except ConfigError:
        found = None
    try:
        shared = parse_shared(text, "client.properties")
    except FormatError:
        shared = None
    assert found == shared
    if shared is not None:
        assert parse_shared(render_properties(shared), "again") == {key: shared[key] for key in shared if key}


def _logins(data: bytes) -> None:
    with suppress(FormatError):
        login_module(text_of(data))


def _addresses(data: bytes) -> None:
    text = text_of(data)
    found = canonical_address(text)
    assert found is None or canonical_address(found) == found
    with suppress(ConfigError):
        per_ip_overrides(text)
    with suppress(ConfigError):
        networks(text.split(","))


_LOGIN = b"""org.apache.kafka.common.security.plain.PlainLoginModule required
 username="ali\\"ce" password='secret' /* why */ user_bob="b;" ; // end"""

TARGETS = (
    Target("pem", _pem, lambda: (_authority().pem.encode()[:400], _authority().pem.encode())),
    Target("certificate", _certificate, _certificate_seeds, 2_048),
    Target("mapping-rules", _rules, lambda: [each.encode() for each in _RULES], 256),
    Target("subject", _subject, lambda: (_SUBJECT.encode(), b"CN=a,O=b"), 1_024),
    Target("properties", _properties, lambda: (b"# c\na=b\\\n  c\nd : \\u00e9\\t\ne f\n",)),
    Target("login-module", _logins, lambda: (_LOGIN, _LOGIN.replace(b"/* why */", b"#")), 512),
    Target("addresses", _addresses, lambda: (b"10.0.0.1:5,[::1]:6,::ffff:1.2.3.4:1", b"10.0.0.0/8,::1", b"fe80::1%1")),
)

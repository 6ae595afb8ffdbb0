"""Kafka's client properties as the commands read them."""

from pathlib import Path

import pytest

from kafka_bytes.properties import parse_properties
from sluicegate_operator.cli.asking.command_config import (
    CommandConfigError,
    client_security,
    read_command_config,
)
from sluicegate_operator.kafka_admin.security.client_security import (
    PLAINTEXT,
    ClientSecurity,
    SaslSettings,
    TlsSettings,
)
from tests.support.processes.authority import TestAuthority

SCRAM = r"""
# as Kafka's tools read it
security.protocol = SASL_PLAINTEXT
sasl.mechanism:SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
    username="alice" \
    password="a\\"b;c d";
! another comment
client.dns.lookup use_all_dns_ips
"""


def test_the_properties_of_kafkas_tools_are_read() -> None:
    assert client_security(parse_properties(SCRAM, "file")) == ClientSecurity(
        sasl=SaslSettings("SCRAM-SHA-512", "alice", 'a"b;c d')
    )
    assert client_security({}) == read_command_config(None) == PLAINTEXT


def test_a_line_that_is_no_property_is_named_by_its_number(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SSL\nhidden-word\n")
    with pytest.raises(CommandConfigError, match="line 2 does not have the form key=value") as refused:
        read_command_config(file)
    assert "hidden-word" not in str(refused.value)


def test_certificates_are_pem_files(tmp_path: Path) -> None:
    authority = TestAuthority()
    pair = authority.issue("client")
    (tmp_path / "ca.pem").write_text(authority.pem)
    (tmp_path / "store.pem").write_text(pair.key + pair.certificate)
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SSL\nssl.truststore.type=PEM\nssl.keystore.type=PEM\n"
        f"ssl.truststore.location={tmp_path}/ca.pem\nssl.keystore.location={tmp_path}/store.pem\n"
    )
    both = pair.key + pair.certificate
    assert read_command_config(file) == ClientSecurity(TlsSettings(authority.pem, both, both))


def test_a_bearer_token_is_an_option() -> None:
    jaas = 'org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required token="a.b.c";'
    found = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": jaas}
    assert client_security(found) == ClientSecurity(TlsSettings(), SaslSettings("OAUTHBEARER", token="a.b.c"))


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"security.protocol": "TLS"}, "security.protocol must be one of"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism must be one of PLAIN"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "is not `LoginModuleClass required"),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": 'a.B required username="hidden" password=hidden"x;',
            },
            "cannot be read at character 47",
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": "a.B required;"},
            "needs the options username",
        ),
        ({"security.protocol": "SSL", "ssl.truststore.location": "x.jks"}, "ssl.truststore.type must be PEM"),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""}, "names are always checked"),
        ({"security.protocol": "SSL", "ssl.keystore.key": "hidden"}, "set both ssl.keystore.certificate.chain"),
        ({"security.protocol": "SSL", "ssl.key.password": "hidden"}, "use an unencrypted key"),
    ],
)
def test_a_bad_file_is_refused_with_its_key_and_without_values(properties: dict[str, str], words: str) -> None:
    with pytest.raises(CommandConfigError, match=words) as refused:
        client_security(properties)
    assert "hidden" not in str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandConfigError, match="No such file"):
        read_command_config(tmp_path / "none")

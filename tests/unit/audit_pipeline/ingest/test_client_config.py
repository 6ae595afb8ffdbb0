"""Kafka's client properties for librdkafka and for Spark."""

from pathlib import Path

import pytest

from audit_pipeline.errors import BadUseError
from audit_pipeline.ingest.audit_topic import TopicPlace
from audit_pipeline.ingest.client_config import PLAINTEXT, client_properties, read_client_properties

JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="anna" password="hid\\"den";'
SCRAM = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": JAAS,
    "ssl.truststore.type": "PEM",
    "ssl.truststore.location": "/ca.pem",
    "group.id": "others",
}


def test_both_clients_get_the_same_connection_by_their_own_names() -> None:
    found = client_properties(SCRAM)
    assert found.librdkafka == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "anna",
        "sasl.password": 'hid"den',
        "ssl.ca.location": "/ca.pem",
        "ssl.endpoint.identification.algorithm": "https",
    }
    assert found.spark == {f"kafka.{name}": value for name, value in SCRAM.items() if name != "group.id"}


def test_a_client_certificate_is_one_file_or_two_texts() -> None:
    store = {"security.protocol": "SSL", "ssl.keystore.type": "PEM"}
    of_file = client_properties(store | {"ssl.keystore.location": "/me.pem"}).librdkafka
    assert of_file["ssl.certificate.location"] == of_file["ssl.key.location"] == "/me.pem"
    texts = {"ssl.keystore.certificate.chain": "chain", "ssl.keystore.key": "key", "ssl.key.password": "hidden"}
    of_texts = client_properties(store | texts)
    assert of_texts.librdkafka["ssl.certificate.pem"] == "chain"
    assert of_texts.librdkafka["ssl.key.pem"] == "key"
    assert of_texts.spark["kafka.ssl.key.password"] == "hidden"


def test_plaintext_needs_nothing() -> None:
    assert client_properties({"sasl.jaas.config": JAAS}) is PLAINTEXT
    assert read_client_properties(None) is PLAINTEXT


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"security.protocol": "hidden"}, "security.protocol must be one of"),
        ({"sasl.mechanism": "OAUTHBEARER"}, "sasl.mechanism must be one of"),
        ({"sasl.jaas.config": "hidden"}, "is not `LoginModuleClass required"),
        ({"sasl.jaas.config": 'm required username="anna";'}, "needs the options"),
        ({"ssl.truststore.type": "JKS"}, "ssl.truststore.type must be PEM"),
        ({"ssl.keystore.location": "/me.jks"}, "ssl.keystore.type must be PEM"),
        ({"ssl.truststore.password": "hidden"}, "not supported"),
        ({"ssl.endpoint.identification.algorithm": ""}, "must be https"),
    ],
)
def test_an_unusable_file_is_refused_without_its_values(changed: dict[str, str], words: str, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in (SCRAM | changed).items()))
    with pytest.raises(BadUseError, match=words) as refused:
        read_client_properties(path)
    assert "--command-config" in str(refused.value)
    assert "hidden" not in str(refused.value).replace(str(path), "")


@pytest.mark.parametrize("raw", [b"hidden\n", b"\xff", None])
def test_a_file_that_is_not_properties_is_refused_without_its_text(raw: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    if raw is not None:
        path.write_bytes(raw)
    with pytest.raises(BadUseError, match="--command-config") as refused:
        read_client_properties(path)
    assert "hidden" not in str(refused.value).replace(str(path), "")


def test_the_files_of_kafkas_tools_are_read_and_a_place_shows_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=m required \\\n  username=anna password=hidden;\n"
    )
    place = TopicPlace.of("kafka:b:1/audit", read_client_properties(path))
    assert place.client.librdkafka["sasl.password"] == "hidden"
    assert "hidden" not in repr(place)

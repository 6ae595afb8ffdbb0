"""Settings of clients: the same connection for each client library, and no password in what is printed."""

from kafka_bytes.properties import parse_properties
from sluicegate_operator.planning.users.client_settings import (
    JAVA,
    LIBRDKAFKA,
    PYTHON,
    SecureClient,
    python_settings,
    settings_files,
)

LOGIN = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="billing" password="quiet";'
BILLING = SecureClient(
    "127.0.0.1:9095,127.0.0.1:9096", "SASL_SSL", "/d/ca.crt", "billing", "quiet", LOGIN, "/d/it's/password"
)


def test_kafkas_own_clients_get_a_pem_trust_store_and_a_login() -> None:
    assert parse_properties(settings_files(BILLING)[JAVA], JAVA) == {
        "bootstrap.servers": "127.0.0.1:9095,127.0.0.1:9096",
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/d/ca.crt",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": LOGIN,
    }


def test_librdkafka_gets_plain_lines() -> None:
    lines = settings_files(BILLING)[LIBRDKAFKA].splitlines()
    assert "ssl.ca.location=/d/ca.crt" in lines
    assert "sasl.password=quiet" in lines


def test_python_reads_the_password_from_its_file() -> None:
    text = settings_files(BILLING)[PYTHON]
    assert text == python_settings(BILLING)
    assert "quiet" not in text + repr(BILLING)
    compile(text, PYTHON, "exec")
    assert 'password = Path("/d/it\'s/password").read_text()' in text
    assert "\"bootstrap_servers\": ['127.0.0.1:9095', '127.0.0.1:9096']," in text


def test_without_users_there_is_tls_alone() -> None:
    files = settings_files(SecureClient("127.0.0.1:9095", "SSL", "/d/ca.crt"))
    assert "sasl" not in "".join(files.values())
    assert "password" not in "".join(files.values())
    found: dict[str, object] = {}
    exec(files[PYTHON], found)
    assert found["kafka_python"] == {
        "bootstrap_servers": ["127.0.0.1:9095"],
        "security_protocol": "SSL",
        "ssl_cafile": "/d/ca.crt",
    }

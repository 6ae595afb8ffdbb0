"""The credentials of a new cluster are read as Apache Kafka's storage tool reads them (ScramParserTest)."""

from base64 import b64encode

import pytest

from broker_runtime.errors import ConfigError
from broker_runtime.security.sasl.scram_bootstrap import CREDENTIALS_MAX, FirstCredential, first_credentials
from broker_runtime.security.sasl.scram_keys import ScramHash

SALT = b"salt"


def read(text: str) -> list[FirstCredential]:
    return list(first_credentials(text, "key", lambda: SALT))


def test_passwords_and_salted_passwords() -> None:
    scram = ScramHash("SCRAM-SHA-512")
    salted = scram.salted_password("se,cret", SALT, 8192)
    text = (
        "# users\n\nSCRAM-SHA-256=[name=alice,password=secret]\n"
        'SCRAM-SHA-512=[name="b,b",iterations=8192,password="se,cret"]\n'
        f'SCRAM-SHA-512=[name=c,iterations=8192,salt="{b64encode(SALT).decode()}",'
        f'saltedpassword="{b64encode(salted).decode()}"]\n'
    )
    alice, bob, carol = read(text)
    assert (alice.name, alice.mechanism, alice.keys.iterations) == ("alice", "SCRAM-SHA-256", 4096)
    assert alice.keys == ScramHash("SCRAM-SHA-256").keys(
        ScramHash("SCRAM-SHA-256").salted_password("secret", SALT, 4096), SALT, 4096
    )
    assert bob.name == "b,b"
    assert bob.keys == carol.keys == scram.keys(salted, SALT, 8192)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("alice:hunter2", "use SCRAM-SHA-256"),
        ("SCRAM-SHA-1=[name=a,password=hunter2]", "use SCRAM-SHA-256"),
        ("SCRAM-SHA-256=[password=hunter2]", "name is missing"),
        ("SCRAM-SHA-256=[name=a]", "either password or saltedpassword"),
        ("SCRAM-SHA-256=[name=a,password=hunter2,saltedpassword=eA==,salt=eA==]", "either password or saltedpassword"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=eA==]", "needs its salt"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=hunter2!,salt=eA==]", "must be base64"),
        ("SCRAM-SHA-256=[name=a,password=hunter2,iterations=4095]", "iterations must lie"),
        ("SCRAM-SHA-256=[name=a,password=hunter2,iterations=16385]", "iterations must lie"),
        ("SCRAM-SHA-256=[name=a,password=hunter2,iterations=many]", "iterations must be a number"),
        ("SCRAM-SHA-256=[name=a,password=hunter2,password=hunter2]", "given twice"),
        ("SCRAM-SHA-256=[name=a,pass=hunter2]", "an option is unknown"),
    ],
)
def test_errors_name_the_line_and_no_secret(line: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=r"^key: line 2: ") as refusal:
        read(f"# users\n{line}\n")
    assert expected in str(refusal.value)
    assert "hunter2" not in str(refusal.value)


def test_the_number_is_limited() -> None:
    with pytest.raises(ConfigError, match="more than 100"):
        read("SCRAM-SHA-256=[name=a,password=b]\n" * (CREDENTIALS_MAX + 1))

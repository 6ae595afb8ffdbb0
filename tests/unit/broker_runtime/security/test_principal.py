"""Principals are written as Kafka writes them."""

from broker_runtime.security.principal import ANONYMOUS, USER, Principal


def test_a_principal_is_written_with_its_type() -> None:
    assert str(Principal(USER, "alice:1")) == "User:alice:1"
    assert str(ANONYMOUS) == "User:ANONYMOUS"


def test_principals_of_one_name_are_equal() -> None:
    assert {Principal(USER, "alice"), Principal(USER, "alice")} == {Principal("User", "alice")}

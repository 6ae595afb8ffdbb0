"""The credentials in the settings of a consumer, and the texts in which they must not appear."""

import ssl
from typing import Any, cast

import pytest

from kafka_bytes.sasl.mechanisms import SaslError
from sluicegate_consumer import AuthenticationError, SaslPassword, SaslToken, Settings, SettingsError

SECRET = "hidden"


@pytest.mark.parametrize(
    ("mechanism", "username", "password"),
    [
        ("GSSAPI", "anna", SECRET),
        (SECRET, "anna", "PLAIN"),
        ("PLAIN", "", SECRET),
        ("PLAIN", "anna", ""),
        ("PLAIN", "anna", SECRET + "\0"),
        ("SCRAM-SHA-256", "anna", SECRET + "\ud800"),
        ("SCRAM-SHA-512", "anna", SECRET.encode()),
    ],
)
def test_invalid_credentials_are_refused_without_repeating_them(mechanism: str, username: str, password: Any) -> None:
    with pytest.raises(SettingsError) as refused:
        SaslPassword(mechanism, username, password)
    assert SECRET not in str(refused.value)


def test_settings_show_no_secret() -> None:
    settings = Settings(sasl=SaslPassword("PLAIN", "anna", SECRET))
    assert SECRET not in repr(settings)
    assert "anna" in repr(settings)
    for wrong in (SECRET, ("PLAIN", "anna", SECRET)):
        with pytest.raises(SettingsError) as refused:
            Settings(sasl=cast(Any, wrong))
        assert SECRET not in str(refused.value)


def test_a_context_that_checks_no_names_is_refused() -> None:
    context = ssl.create_default_context()
    assert Settings(tls=context).tls is context
    context.check_hostname = False
    with pytest.raises(SettingsError, match="host names"):
        Settings(tls=context)
    with pytest.raises(SettingsError, match="SSLContext"):
        Settings(tls=cast(Any, True))


async def test_tokens_come_from_functions_of_both_kinds() -> None:
    async def later() -> str:
        return "a.b"

    for token in (later, lambda: "a.b"):
        assert (await SaslToken(token).exchange()).first() == b"n,,\x01auth=Bearer a.b\x01\x01"


async def test_a_function_that_fails_ends_the_consumer_unless_it_could_not_connect() -> None:
    def raises(error: Exception) -> Any:
        def token() -> str:
            raise error

        return SaslToken(token)

    with pytest.raises(AuthenticationError, match="function"):
        await raises(KeyError("token")).exchange()
    with pytest.raises(ConnectionRefusedError):
        await raises(ConnectionRefusedError()).exchange()
    with pytest.raises(AuthenticationError, match="no text"):
        await SaslToken(cast(Any, lambda: None)).exchange()
    with pytest.raises(SaslError):
        await SaslToken(lambda: "two words").exchange()
    with pytest.raises(SettingsError):
        SaslToken(cast(Any, "a.b"))

"""Errors of TLS that a new attempt cannot repair."""

import ssl

from sluicegate_consumer.security.tls import handshake_failure, rejected_certificate


def error_of(reason: str, kind: type[ssl.SSLError] = ssl.SSLError) -> ssl.SSLError:
    found = kind(1, f"[SSL: {reason}]")
    found.reason = reason
    return found


def test_a_certificate_of_another_name_is_final_and_a_lost_connection_is_not() -> None:
    wrong = ssl.SSLCertVerificationError(1, "x")
    wrong.verify_message = "Hostname mismatch"
    assert handshake_failure(wrong, "k1") == "the broker's certificate is not accepted for k1: Hostname mismatch"
    assert handshake_failure(error_of("WRONG_VERSION_NUMBER"), "k1") is not None
    assert handshake_failure(error_of("UNEXPECTED_EOF", ssl.SSLEOFError), "k1") is None
    assert handshake_failure(ConnectionRefusedError(), "k1") is None


def test_only_alerts_about_the_certificate_are_final_after_the_handshake() -> None:
    assert "rejected" in (rejected_certificate(error_of("TLSV13_ALERT_CERTIFICATE_REQUIRED")) or "")
    assert rejected_certificate(error_of("DECRYPTION_FAILED_OR_BAD_RECORD_MAC")) is None
    assert rejected_certificate(ConnectionResetError()) is None

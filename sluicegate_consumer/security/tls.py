"""Which errors of TLS a new attempt cannot repair, and their texts. Pure."""

import ssl

_PASSING = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
"""The connection ended, as it does when a broker stops."""
_ALERTS = ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED")
"""Parts of the alerts by which a broker rejects a client's certificate, with TLS 1.3 after the handshake."""


def handshake_failure(error: OSError, host: str) -> str | None:
    """Return why the TLS handshake with a host failed for good; None if another attempt may succeed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the broker's certificate is not accepted for {host}: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and not isinstance(error, _PASSING):
        return f"the TLS handshake failed: {error.reason or error}"
    return None


def rejected_certificate(error: OSError) -> str | None:
    """Return the message about a certificate that the broker rejected; None if the error has another cause."""
    reason = error.reason if isinstance(error, ssl.SSLError) else None
    if reason is None or not any(alert in reason for alert in _ALERTS):
        return None
    return f"the broker rejected the consumer's certificate: {reason}"

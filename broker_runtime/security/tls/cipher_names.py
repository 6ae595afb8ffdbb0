"""Names of cipher suites: IANA's, which Apache Kafka uses, and OpenSSL's. Pure."""

import re

_IANA = re.compile(r"TLS_((?:ECDHE|DHE|ECDH|DH)_(?:RSA|ECDSA|DSS)|RSA)_WITH_(\w+)")
_OPENSSL = re.compile(r"(?:((?:ECDHE|DHE|ECDH|DH)-(?:RSA|ECDSA|DSS))-)?(\w+)((?:-\w+)*)")
_AES = re.compile(r"(AES|CAMELLIA)(\d+)")
TLS_1_3 = frozenset(
    {
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_128_CCM_SHA256",
        "TLS_AES_128_CCM_8_SHA256",
    }
)


def openssl_name(name: str) -> str:
    """Return OpenSSL's name of a suite of TLS 1.2. A name of another form is returned unchanged."""
    match = _IANA.fullmatch(name)
    if match is None:
        return name
    exchange = "" if match[1] == "RSA" else match[1].replace("_", "-") + "-"
    cipher = match[2].replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    cipher = re.sub(r"AES_(\d+)_CBC", r"AES\1", cipher)
    cipher = re.sub(r"AES_(\d+)_", r"AES\1_", cipher)
    cipher = re.sub(r"CAMELLIA_(\d+)_CBC", r"CAMELLIA\1", cipher)
    cipher = cipher.replace("3DES_EDE_CBC", "DES_CBC3")
    return exchange + cipher.replace("CCM_8", "CCM8").replace("_", "-")


def iana_name(name: str) -> str:
    """Return IANA's name of a suite of TLS 1.2, by OpenSSL's. A name of another form is returned unchanged."""
    match = _OPENSSL.fullmatch(name)
    if match is None or name in TLS_1_3:
        return name
    exchange = "RSA" if match[1] is None else match[1].replace("-", "_")
    cipher, rest = match[2], match[3]
    if cipher == "CHACHA20":
        rest += "-SHA256"
    elif _AES.fullmatch(cipher):
        cipher = _AES.sub(r"\1_\2", cipher)
        rest = rest.replace("CCM8", "CCM-8") if rest.startswith(("-GCM-", "-CCM")) else f"-CBC{rest}"
    else:
        return name
    return f"TLS_{exchange}_WITH_{cipher}{rest.replace('-', '_')}"

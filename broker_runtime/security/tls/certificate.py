"""The parts of a certificate that the broker uses (RFC 5280): subject, alternative names, end of validity. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime

from broker_runtime.security.tls.der import Element, children, element, object_identifier
from broker_runtime.security.tls.distinguished_name import rfc2253

_CONTEXT_0, _CONTEXT_3 = 0xA0, 0xA3
_UTC_TIME = 0x17
_ALTERNATIVE_NAMES = "2.5.29.17"
_CENTURY_FROM = 50
_TIME_LENGTH = 15


@dataclass(frozen=True, slots=True)
class CertificateInfo:
    """The facts about a certificate: subject in the form of RFC 2253, alternative names in DER, and end of validity."""

    subject: str
    alternative_names: frozenset[bytes]
    not_after: datetime


def certificate_info(der: bytes) -> CertificateInfo:
    """Read the facts about a certificate in DER. Raises ValueError for a malformed one."""
    try:
        return _info(der)
    except IndexError:
        raise ValueError("a certificate has too few fields") from None


def _info(der: bytes) -> CertificateInfo:
    fields = children(children(element(der))[0])
    if fields and fields[0].tag == _CONTEXT_0:
        del fields[0]
    if len(fields) < 6:
        raise ValueError("a certificate has too few fields")
    _, _, _, validity, subject, _, *rest = fields
    return CertificateInfo(rfc2253(subject), _alternative_names(rest), _time(children(validity)[1]))


def subject_of(der: bytes) -> str:
    """Return the subject of a certificate in the form of RFC 2253. Raises ValueError for a malformed certificate."""
    return certificate_info(der).subject


def _alternative_names(rest: list[Element]) -> frozenset[bytes]:
    for field in rest:
        if field.tag == _CONTEXT_3:
            for extension in children(children(field)[0]):
                kind, *_, value = children(extension)
                if object_identifier(kind) == _ALTERNATIVE_NAMES:
                    return frozenset(name.der for name in children(element(value.content)))
    return frozenset()


def _time(read: Element) -> datetime:
    text = read.content.decode("ascii")
    if read.tag == _UTC_TIME:
        text = ("19" if int(text[:2]) >= _CENTURY_FROM else "20") + text
    if len(text) != _TIME_LENGTH or text[-1] != "Z":
        raise ValueError("a certificate has an unusable time")
    # `strptime` would import 1 MB of modules.
    month, day, hour, minute, second = (int(text[at : at + 2]) for at in range(4, _TIME_LENGTH - 1, 2))
    return datetime(int(text[:4]), month, day, hour, minute, second, tzinfo=UTC)

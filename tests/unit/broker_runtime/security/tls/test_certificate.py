"""What the broker reads in certificates, beside the reader of another library."""

from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.security.tls.certificate import certificate_info, subject_of
from tests.support.tls.authority import Authority

AUTHORITY = Authority()


def name_of(*parts: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
    """A name whose first part is the least specific one, as in a certificate."""
    return x509.Name([x509.NameAttribute(kind, value) for kind, value in parts])


@pytest.mark.parametrize(
    ("name", "subject"),
    [
        (
            name_of(
                (NameOID.COUNTRY_NAME, "DE"), (NameOID.ORGANIZATION_NAME, "Some Firm"), (NameOID.COMMON_NAME, "anna")
            ),
            "CN=anna,O=Some Firm,C=DE",
        ),
        (
            name_of((NameOID.DOMAIN_COMPONENT, "example"), (NameOID.DOMAIN_COMPONENT, "firm"), (NameOID.USER_ID, "u")),
            "UID=u,DC=firm,DC=example",
        ),
        (name_of((NameOID.COMMON_NAME, 'Berg, "A" + B=1; <c> #\\')), 'CN=Berg\\, \\"A\\" \\+ B\\=1\\; \\<c\\> \\#\\\\'),
        (name_of((NameOID.COMMON_NAME, "  two blanks  ")), "CN=\\ \\ two blanks\\ \\ "),
        (name_of((NameOID.COMMON_NAME, "Zoë 中")), "CN=Zoë 中"),
        (name_of((NameOID.EMAIL_ADDRESS, "a@b.c")), "1.2.840.113549.1.9.1=#16056140622e63"),
        (name_of((NameOID.SERIAL_NUMBER, "7"), (NameOID.COMMON_NAME, "a")), "CN=a,2.5.4.5=#130137"),
        (
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ä", _type=_ASN1Type.BMPString)]),
            "CN=ä",
        ),
        (
            x509.Name(
                [
                    x509.RelativeDistinguishedName(
                        [x509.NameAttribute(NameOID.COMMON_NAME, "a"), x509.NameAttribute(NameOID.USER_ID, "b")]
                    )
                ]
            ),
            "CN=a+UID=b",
        ),
    ],
)
def test_subjects_are_written_like_the_jvm_does(name: x509.Name, subject: str) -> None:
    assert subject_of(AUTHORITY.issue(name).der) == subject


def test_names_and_validity() -> None:
    issued = AUTHORITY.issue("CN=a", "b.example", "10.0.0.1", valid_for=timedelta(days=10))
    info = certificate_info(issued.der)
    assert info.not_after == issued.certificate.not_valid_after_utc
    assert len(info.alternative_names) == 2
    assert b"\x82\x09b.example" in info.alternative_names
    assert certificate_info(AUTHORITY.issue("CN=a").der).alternative_names == frozenset()
    assert certificate_info(AUTHORITY.issue("CN=a").der).not_after.year == 2120


DER = AUTHORITY.issue("CN=a,O=b", "c.example").der


@given(st.integers(0, len(DER) - 1), st.integers(0, 255), st.integers(0, len(DER)))
def test_malformed_certificates_raise_a_value_error(at: int, byte: int, length: int) -> None:
    data = bytearray(DER)
    data[at] = byte
    for malformed in (bytes(data), DER[:length]):
        try:
            certificate_info(malformed)
        except ValueError:
            continue

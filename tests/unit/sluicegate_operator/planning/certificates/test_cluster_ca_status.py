"""The condition CertificatesCurrent, and the ends of certificates in the status."""

import pytest

from sluicegate_operator.planning.certificates.cluster_ca_status import (
    CertificatesSeen,
    certificates_finding,
    cluster_ca_status,
)
from sluicegate_operator.planning.certificates.renewal import NodeInForce

BEHIND = (
    NodeInForce("shop-brokers-1", silence="no answer within 2 s"),
    NodeInForce("shop-brokers-2", problem="new keys are not used"),
    NodeInForce("shop-brokers-3"),
    NodeInForce("shop-brokers-4"),
)
WAITS = (
    "the renewal waits for nodes that do not use the newest certificates yet: shop-brokers-1 (no answer within 2 s),"
    " shop-brokers-2 (new keys are not used), shop-brokers-3 and 1 more"
)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (CertificatesSeen(usable=True, certificate_ends_s=0.0), (True, "Current", "the nodes' certificate ends at")),
        (CertificatesSeen(usable=True, under_way=True), (False, "Renewing", "certificates are being renewed")),
        (CertificatesSeen(usable=True, under_way=True, waiting=BEHIND), (False, "NodesBehind", WAITS)),
        (
            CertificatesSeen(usable=True, under_way=True, waiting=BEHIND, ending=True, certificate_ends_s=0.0),
            (False, "CertificateEnding", f"the certificate of nodes ends at 1970-01-01T00:00:00Z: {WAITS}"),
        ),
        (CertificatesSeen(problem="a Secret is gone", reason="SecretMissing"), (False, "SecretMissing", "a Secret is")),
    ],
    ids=lambda value: value[1] if isinstance(value, tuple) else "",
)
def test_the_condition_says_what_a_renewal_waits_for(seen: CertificatesSeen, expected: tuple[bool, str, str]) -> None:
    found = certificates_finding(seen)
    assert (found.is_true, found.reason) == expected[:2]
    assert found.message.startswith(expected[2])


def test_the_status_has_the_ends() -> None:
    found = cluster_ca_status(CertificatesSeen(authority_ends_s=86_400.5, certificate_ends_s=None))
    assert (found.authority_ends, found.certificate_ends) == ("1970-01-02T00:00:00Z", None)

"""Certificates of listeners on a laptop: made once, renewed before they end, and those of users are kept."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from sluicegate_operator.kube.certificates.new_certificate import new_pair
from sluicegate_operator.kube.certificates.tls_pair import CertificateError, TlsPair
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.local.certificates import HOSTS, LIVES_DAYS, LocalCertificates
from sluicegate_operator.local.secrets import LocalSecrets, write_private


class Maker:
    """Makes certificates in this process; `days` is the life of the next one."""

    def __init__(self) -> None:
        self.days = float(LIVES_DAYS)
        self.made = 0

    async def __call__(self) -> TlsPair:
        self.made += 1
        return new_pair(HOSTS, datetime.now(UTC), self.days)


async def test_a_certificate_is_made_once_and_renewed_before_it_ends(tmp_path: Path) -> None:
    make, secrets = Maker(), LocalSecrets(tmp_path)
    make.days = 20
    first = await LocalCertificates(secrets, make).keep("default", "shop-tls")
    assert first.data.keys() == {"tls.crt", "tls.key", "ca.crt"}

    make.days = LIVES_DAYS
    second = await LocalCertificates(secrets, make).keep("default", "shop-tls")
    assert second.data != first.data
    assert await LocalCertificates(secrets, make).keep("default", "shop-tls") == second
    assert make.made == 2
    pair = TlsPair(second.data["tls.crt"], second.data["tls.key"], second.data["ca.crt"])
    for host in HOSTS:
        assert pair.expires_s(host) > datetime.now(UTC).timestamp()


async def test_a_certificate_of_the_user_stays(tmp_path: Path) -> None:
    make = Maker()
    write_private(tmp_path / "default" / "shop-tls" / "tls.crt", "from a company's authority")
    found = await LocalCertificates(LocalSecrets(tmp_path), make).keep("default", "shop-tls")
    assert (found.data, make.made) == ({"tls.crt": b"from a company's authority"}, 0)


async def test_a_certificate_that_cannot_be_made_is_tried_again(tmp_path: Path) -> None:
    async def fail() -> TlsPair:
        raise CertificateError("the certificate could not be made: no memory")

    with pytest.raises(KubeError, match="no memory") as caught:
        await LocalCertificates(LocalSecrets(tmp_path), fail).keep("default", "shop-tls")
    assert caught.value.retriable

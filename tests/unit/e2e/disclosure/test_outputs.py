"""The search for generated secrets finds each that is planted, in each kind of output, and nothing else."""

import base64
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from e2e.disclosure import outputs as module
from e2e.disclosure.generated import of_secret
from e2e.disclosure.outputs import Outputs

PASSWORD = "cMFQXMUBx0Jv3nWc7dPMnJrCvG2KzTqu"
TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJlLW9mLXRoZS10b2tlbg"
KEY = (
    ec.generate_private_key(ec.SECP256R1())
    .private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    .decode("ascii")
)
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUEg\n-----END CERTIFICATE-----\n"


def secret(**values: str) -> dict[str, object]:
    data = {key.replace("_", "."): base64.b64encode(value.encode()).decode() for key, value in values.items()}
    return {"metadata": {"namespace": "shop", "name": "hidden"}, "type": "Opaque", "data": data}


@pytest.fixture
def outputs(tmp_path: Path) -> Outputs:
    made = Outputs(tmp_path / "outputs")
    made.hide(of_secret(secret(password=PASSWORD, username="billing", tls_key=KEY, tls_crt=CERTIFICATE, token=TOKEN)))
    return made


@pytest.mark.parametrize(
    ("planted", "key"),
    [
        (f"authentication of billing with {PASSWORD} failed", "password"),
        (json.dumps({"status": {"message": f'password="{PASSWORD}"'}}), "password"),
        (base64.b64encode(PASSWORD.encode()).decode(), "password"),
        (KEY, "tls.key"),
        (json.dumps({"data": {"keystore.pem": f"{KEY}{CERTIFICATE}"}}), "tls.key"),
        (repr(KEY.encode()), "tls.key"),
        (base64.b64encode(f"{KEY}{CERTIFICATE}".encode()).decode(), "tls.key"),
        (f"Authorization: Bearer {TOKEN}", "token"),
    ],
)
def test_a_planted_secret_is_found_and_not_shown_again(outputs: Outputs, planted: str, key: str) -> None:
    outputs.add("log of a broker", planted)
    with pytest.raises(AssertionError, match=f"log_of_a_broker: {key} of Secret shop/hidden") as error:
        outputs.check()
    assert PASSWORD not in str(error.value)


def test_what_is_public_is_no_disclosure(outputs: Outputs) -> None:
    outputs.add("log", f"billing has {CERTIFICATE} and {TOKEN.rpartition('.')[0]}")
    outputs.check()


def test_files_of_others_are_searched_too(outputs: Outputs, tmp_path: Path) -> None:
    log = tmp_path / "operator.log"
    log.write_text(f"a traceback with {PASSWORD}")
    assert outputs.disclosures([log]) == [f"{log}: password of Secret shop/hidden"]


def test_a_secret_between_two_blocks_of_a_file_is_found(outputs: Outputs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK_BYTES", 16)
    outputs.add("log", f"{'x' * 11}{PASSWORD}")
    assert len(outputs.disclosures()) == 1


def test_a_token_that_is_in_no_secret_is_hidden_by_hand(outputs: Outputs) -> None:
    outputs.hide_value("the token of reporting", f"a.b.{'c' * 40}\n")
    outputs.add("log", "c" * 40)
    assert [one.rpartition(": ")[2] for one in outputs.disclosures()] == ["the token of reporting"]


def test_releases_of_helm_are_no_secrets() -> None:
    assert of_secret(secret(release="H4sIAAAAAAAC/+y9") | {"type": "helm.sh/release.v1"}) == {}

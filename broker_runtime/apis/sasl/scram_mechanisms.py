"""SCRAM on a listener: the users are those of the metadata. Shell: it draws nonces."""

import secrets
from collections.abc import Callable

from broker_runtime.apis.sasl.listener_settings import Create
from broker_runtime.metadata.areas.scram_credentials import SCRAM_NUMBERS
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.security.sasl.scram import ScramServer
from broker_runtime.security.sasl.scram_keys import ScramHash, ScramKeys

_NONCE_BYTES = 18


def scram_mechanisms(image: Callable[[], MetadataImage], cluster_id: str) -> dict[str, Callable[[str], Create]]:
    """Return, by SCRAM mechanism, a function from a listener to its factory, for `listener_settings.listener_sasl`."""
    return {name: _of_any_listener(number, name, image, cluster_id) for number, name in SCRAM_NUMBERS.items()}


def _of_any_listener(
    number: int, name: str, image: Callable[[], MetadataImage], cluster_id: str
) -> Callable[[str], Create]:
    scram, hidden = ScramHash(name), cluster_id.encode()

    def find(user: str) -> ScramKeys | None:
        credential = image().scram_credentials.get(user, {}).get(number)
        return None if credential is None else ScramKeys(*credential)

    def create() -> ScramServer:
        return ScramServer(scram, find, secrets.token_urlsafe(_NONCE_BYTES), hidden)

    return lambda _: create

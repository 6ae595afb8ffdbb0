"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), the server's side. Pure.

An unknown user gets a salt, like a known one, and is refused only after the proof: the exchange does not show which
users exist. The nonce has to be returned exactly (CVE-2024-56128); librdkafka before 2.6.1 does not return it so.
"""

import hmac
from collections.abc import Callable

from broker_runtime.security.sasl.mechanism import (
    Authenticated,
    Challenge,
    OneMessageMechanism,
    SaslRefusedError,
    Step,
)
from broker_runtime.security.sasl.scram_keys import ITERATIONS_MIN, ScramHash, ScramKeys, xored
from broker_runtime.security.sasl.scram_messages import (
    ClientFirst,
    ServerFirst,
    read_client_final,
    read_client_first,
    server_final,
)

_OTHER_USER = "Authentication failed: Client requested an authorization id that is different from username"
_SALT_BYTES = 16


class ScramServer(OneMessageMechanism):
    """The server's side of one SCRAM exchange. `find` returns the keys of a user, or None.

    `nonce` is this server's part of the nonce. `hidden` is a secret of the cluster, from which the salts of unknown
    users follow.
    """

    def __init__(self, scram: ScramHash, find: Callable[[str], ScramKeys | None], nonce: str, hidden: bytes) -> None:
        self._scram = scram
        self._find = find
        self._nonce = nonce
        self._hidden = hidden
        self._first: ClientFirst | None = None
        self._sent: ServerFirst | None = None
        self._keys: ScramKeys | None = None

    def step(self, token: bytes, /) -> Step:
        """Process the client's first or last message."""
        return self._begin(token) if self._first is None else self._end(token)

    def _begin(self, token: bytes) -> Step:
        first = self._first = read_client_first(token)
        if first.by_token:
            raise SaslRefusedError("delegation tokens are not supported")
        if first.authorization_id not in ("", first.user):
            raise SaslRefusedError(_OTHER_USER, _OTHER_USER)
        keys = self._keys = self._usable(self._find(first.user))
        salt, iterations = (
            (self._salt_of_nobody(first.user), ITERATIONS_MIN) if keys is None else (keys.salt, keys.iterations)
        )
        sent = self._sent = ServerFirst(first.nonce + self._nonce, salt, iterations)
        return Challenge(sent.text().encode())

    @staticmethod
    def _usable(keys: ScramKeys | None) -> ScramKeys | None:
        return None if keys is None or keys.iterations < ITERATIONS_MIN else keys

    def _salt_of_nobody(self, user: str) -> bytes:
        return self._scram.hmac(self._hidden, user.encode())[:_SALT_BYTES]

    def _end(self, token: bytes) -> Step:
        first, sent, keys, scram = self._first, self._sent, self._keys, self._scram
        assert first is not None
        assert sent is not None
        final = read_client_final(token)
        if final.nonce != sent.nonce:
            raise SaslRefusedError("the nonce is not the server's; librdkafka before 2.6.1 returns a wrong one")
        if keys is None:
            raise SaslRefusedError("the user, or its credential for this mechanism, does not exist")
        message = ",".join((first.bare, sent.text(), final.without_proof)).encode()
        signature = scram.hmac(keys.stored_key, message)
        is_right = len(final.proof) == len(signature) and hmac.compare_digest(
            scram.hash(xored(final.proof, signature)), keys.stored_key
        )
        if not is_right:
            raise SaslRefusedError("the password is wrong")
        return Authenticated(first.user, server_final(scram.hmac(keys.server_key, message)).encode())

"""Keeps the public keys of a token issuer, read from a file or a URL. Shell.

A file is read again when it has changed. A URL is read in the background, outside of the event loop: at intervals, and
once for a key that is not known, but once a second at most. While a read fails, the last keys stay valid.
"""

import asyncio
import logging
import os
import ssl
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

import urllib3

from broker_runtime.errors import ConfigError
from broker_runtime.security.sasl.tokens import Keys, KeySetError, read_keys

log = logging.getLogger(__name__)

_KEY = "sasl.oauthbearer.jwks.endpoint.url"
_UNKNOWN_MAX = 16
_UNKNOWN_INTERVAL_S = 60.0
_SEEK_INTERVAL_S = 1.0
"""Least time between two reads for unknown keys, in seconds: any client can name unknown keys."""
_KID_CHARS_MAX = 1_000
_OK = 200
_ACCEPTED = "application/jwk-set+json, application/json;q=0.9, */*;q=0.8"
"""Media types of key sets. A Kubernetes API server has only the first, and answers 406 without it."""


@dataclass(frozen=True, slots=True)
class KeySetLimits:
    """Limits of reading key sets: intervals and timeouts in seconds, and the largest key set in bytes."""

    refresh_s: float
    backoff_s: float
    backoff_max_s: float
    timeout_s: float
    bytes_max: int


class KeyFile:
    """Reads the keys that verify tokens from a file. Raises ConfigError if the keys cannot be read at the start."""

    def __init__(self, path: str, limits: KeySetLimits) -> None:
        self._path = path
        self._limits = limits
        self._read_ns = -1
        self._keys: Keys = ()
        try:
            self.current()
        except (OSError, KeySetError) as error:
            raise ConfigError(f"{_KEY}: {path} cannot be used: {error}") from None

    def current(self) -> Keys:
        """Return the keys that verify tokens. Read the file if it has changed, which may block.

        Raises OSError and KeySetError if no keys have been read before.
        """
        try:
            changed_ns = os.stat(self._path).st_mtime_ns
            if changed_ns != self._read_ns:
                with open(self._path, "rb") as file:
                    self._keys = read_keys(file.read(self._limits.bytes_max))
                self._read_ns = changed_ns
        except (OSError, KeySetError) as error:
            if not self._keys:
                raise
            log.warning("the keys in %s cannot be read; the last ones stay valid: %s", self._path, error)
        return self._keys

    def key_unknown(self, kid: str | None) -> None:
        """Do nothing: the next `current` reads a file that has changed."""
        del kid

    def close(self) -> None:
        """Do nothing: no thread reads a file."""


class KeyEndpoint:
    """Reads the keys that verify tokens from a URL. It owns a thread for the reads, and the timer of the next one."""

    def __init__(self, url: str, ca_file: str | None, token_file: str | None, limits: KeySetLimits) -> None:
        self._url = url
        self._ca_file = ca_file
        self._token_file = token_file
        self._limits = limits
        self._keys: Keys = ()
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "jwks")
        self._timer: asyncio.TimerHandle | None = None
        self._reading = False
        self._closed = False
        self._backoff_s = limits.backoff_s
        self._unknown: OrderedDict[str, float] = OrderedDict()
        """Time of the last request to read an unknown key, in seconds, by the key's id."""
        self._sought = False
        """Whether a key was unknown since the last read began."""
        self._fails = False
        self._read_s = 0.0
        """Time at which the last read ended, in seconds."""
        self._read_soon()

    def current(self) -> Keys:
        """Return the keys that were read last; none before the first read."""
        return self._keys

    def key_unknown(self, kid: str | None) -> None:
        """Read the keys again, because a token names an unknown key. May be called in any thread."""
        if kid is not None and len(kid) <= _KID_CHARS_MAX:
            self._loop.call_soon_threadsafe(self._seek, kid)

    def _seek(self, kid: str) -> None:
        now_s = self._loop.time()
        if now_s - self._unknown.get(kid, -_UNKNOWN_INTERVAL_S) < _UNKNOWN_INTERVAL_S:
            return
        self._unknown[kid] = now_s
        self._unknown.move_to_end(kid)
        while len(self._unknown) > _UNKNOWN_MAX:
            self._unknown.popitem(last=False)
        self._sought = True
        if not (self._reading or self._closed or self._fails):
            self._read_in(max(self._read_s + _SEEK_INTERVAL_S - now_s, 0.0))

    def _read_in(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay_s, self._read_soon)

    def _read_soon(self) -> None:
        if self._reading or self._closed:
            return
        self._reading, self._sought = True, False
        if self._timer is not None:
            self._timer.cancel()
        self._loop.run_in_executor(self._thread, self._read).add_done_callback(self._was_read)

    def _was_read(self, reading: "asyncio.Future[Keys]") -> None:
        self._reading = False
        if self._closed or reading.cancelled():
            return
        error = reading.exception()
        self._read_s, self._fails = self._loop.time(), error is not None
        if error is None:
            self._keys = reading.result()
            self._backoff_s, delay_s = self._limits.backoff_s, self._limits.refresh_s
            if self._sought:
                delay_s = min(delay_s, _SEEK_INTERVAL_S)
        else:
            delay_s, self._backoff_s = self._backoff_s, min(self._backoff_s * 2, self._limits.backoff_max_s)
            log.warning("the keys at %s cannot be read, retrying in %.1f s: %s", self._url, delay_s, error)
        self._read_in(delay_s)

    def _read(self) -> Keys:
        """Read the keys, in the thread. Raises OSError, KeySetError, or urllib3's errors."""
        headers = {"Accept": _ACCEPTED}
        if self._token_file is not None:
            with open(self._token_file, encoding="utf-8") as file:
                headers["Authorization"] = f"Bearer {file.read().strip()}"
        tls = ssl.create_default_context(cafile=self._ca_file)
        with urllib3.PoolManager(ssl_context=tls, retries=False, timeout=self._limits.timeout_s) as http:
            answer = http.request("GET", self._url, headers=headers, redirect=False, preload_content=False)
            text: bytes = answer.read(self._limits.bytes_max + 1)
            answer.release_conn()
        if answer.status != _OK:
            raise KeySetError(f"the server answers with HTTP status {answer.status}")
        if len(text) > self._limits.bytes_max:
            raise KeySetError("it is larger than sluicegate.oauthbearer.jwks.max.bytes")
        return read_keys(text)

    def close(self) -> None:
        """Stop the thread that reads keys from the URL."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)


KeySource = KeyFile | KeyEndpoint


def key_source(url: str, ca_file: str | None, token_file: str | None, limits: KeySetLimits) -> KeySource:
    """Return the keys behind a URL: a file, or an endpoint. Raises ConfigError."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return KeyFile(unquote(parts.path), limits)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{_KEY}: the URL must begin with https://, http:// or file:///")
    for file in (ca_file, token_file):
        if file is not None and not os.access(file, os.R_OK):
            raise ConfigError(f"{_KEY}: {file} cannot be read")
    return KeyEndpoint(url, ca_file, token_file, limits)

"""The keys, certificates and contexts of this node's listeners with TLS, and of its connections to others. Shell."""

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from broker_runtime.config import BrokerSettings, SecurityProtocol, ServerAddress, Value
from broker_runtime.config.declaring.endpoints import ENCRYPTED
from broker_runtime.config.in_force.effective import EffectiveConfig
from broker_runtime.errors import ConfigError
from broker_runtime.network.quotas.metrics import Sample
from broker_runtime.network.sockets.tls_transport import TlsTransport
from broker_runtime.network.sockets.transport import TransportFactory
from broker_runtime.node.tls.tls_metrics import tls_samples
from broker_runtime.node.tls.tls_report import tls_report
from broker_runtime.node.tls.tls_settings_of import tls_settings_of
from broker_runtime.security.principal import Principal
from broker_runtime.security.tls.change_rules import check_change, check_handshake
from broker_runtime.security.tls.cipher_counts import CipherCounts
from broker_runtime.security.tls.material import TlsMaterial, Uses, load
from broker_runtime.security.tls.tls_settings import TlsSettings

log = logging.getLogger(__name__)
_SERVES, _DIALS = Uses(serves=True), Uses(dials=True)

Signature = tuple[tuple[int, int, int], ...]
"""The state of a listener's files: inode, size and time of the last change of each."""


@dataclass(slots=True)
class _Loaded:
    """The keys and certificates that are in force on one listener, and the files that they were read from."""

    protocol: SecurityProtocol
    material: TlsMaterial
    files: Signature
    problem: str | None = None
    """Why the newest configuration or the newest files are not in force."""


class TlsInForce:
    """The loaded keys and certificates of each listener. New connections use the newest; nothing is durable.

    Files that cannot be loaded, or that may not replace those in force, are logged and counted; the old ones stay in
    force.
    """

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._values: Mapping[str, Value] = settings.values
        self._loaded: dict[str, _Loaded] = {}
        """The loaded files of each listener, by its name in upper case."""
        self._reloads: Counter[tuple[str, str]] = Counter()
        self._ciphers = CipherCounts()

    @property
    def problems(self) -> list[str]:
        """Return a sentence for each configuration and file that is not in force."""
        return [loaded.problem for loaded in self._loaded.values() if loaded.problem is not None]

    def accepting(self, listener: str, protocol: SecurityProtocol) -> TransportFactory:
        """Return the factory of transports for a listener's accepted sockets.

        Raises ConfigError if the listener's settings cannot be used.
        """
        before = self._loaded.get(listener)
        uses = _SERVES if before is None else before.material.uses | _SERVES
        loaded = self._loaded[listener] = self._load(listener, protocol, uses)
        if self._is_between_brokers(listener):
            check_handshake(loaded.material, loaded.material)
        authenticates = protocol is SecurityProtocol.SSL
        shaken = partial(self._ciphers.begin, listener)

        def wrap(accepted: socket.socket) -> TlsTransport:
            material = self._loaded[listener].material
            assert material.server is not None
            identify = material.principal_of if authenticates else _found_by_sasl
            return TlsTransport(accepted, material.server, identify, shaken=shaken)

        return wrap

    def dialling(self, listener: str, address: ServerAddress) -> TransportFactory:
        """Return the factory of transports for connections to another node, by that node's listener.

        Raises ConfigError.
        """
        loaded = self._loaded.get(listener)
        if loaded is None or not loaded.material.uses.dials:
            uses = _DIALS if loaded is None else loaded.material.uses | _DIALS
            loaded = self._loaded[listener] = self._load(listener, address.security_protocol, uses)
        context, name = loaded.material.client, loaded.material.settings.server_name or address.host
        assert context is not None
        return lambda connected: TlsTransport(connected, context, _found_by_sasl, server_name=name)

    def _load(self, listener: str, protocol: SecurityProtocol, uses: Uses) -> _Loaded:
        settings = tls_settings_of(self._values, listener, protocol)
        # The files may change while they are read: then the next check reads them again.
        files = _signature(settings)
        return _Loaded(protocol, load(settings, uses), files)

    def _is_between_brokers(self, listener: str) -> bool:
        return listener == self._settings.inter_broker_listener

    def check(self, after: EffectiveConfig, opened: Collection[str]) -> None:
        """Check a configuration before it is stored; `opened` are the open listeners. Raises ConfigError."""
        for endpoint in after.listeners.opened:
            name, protocol = endpoint.listener, endpoint.security_protocol
            if protocol in ENCRYPTED:
                settings = tls_settings_of(after.values, name, protocol)
                loaded = self._loaded.get(name) if name in opened else None
                if loaded is None:
                    load(settings, _SERVES)
                else:
                    self._checked(name, settings, loaded.material)

    def _checked(self, listener: str, settings: TlsSettings, now: TlsMaterial) -> TlsMaterial:
        new = load(settings, now.uses)
        if now.uses.serves:
            check_change(now, new, between_brokers=self._is_between_brokers(listener))
        return new

    def configure(self, effective: EffectiveConfig) -> None:
        """Use the changed TLS settings of listeners for new connections."""
        self._values = effective.values
        for listener in [name for name in self._loaded if name not in effective.listeners.names]:
            # The listener is closed. If it is opened again, all of its settings are read again.
            del self._loaded[listener]
        for listener, loaded in self._loaded.items():
            settings = self._settings_of(listener, loaded)
            if settings != loaded.material.settings:
                self._replace(listener, settings, _signature(settings))

    async def check_files(self) -> None:
        """Load files that have changed, and check again those that could not be used."""
        for listener, loaded in list(self._loaded.items()):
            settings = self._settings_of(listener, loaded)
            files = await asyncio.to_thread(_signature, settings)
            if self._loaded.get(listener) is not loaded or settings != self._settings_of(listener, loaded):
                # The configuration changed while the files were looked at: `configure` has loaded its files.
                continue
            if files != loaded.files:
                self._replace(listener, settings, files)

    def _settings_of(self, listener: str, loaded: _Loaded) -> TlsSettings:
        return tls_settings_of(self._values, listener, loaded.protocol)

    def _replace(self, listener: str, settings: TlsSettings, files: Signature) -> None:
        loaded = self._loaded[listener]
        try:
            loaded.material = self._checked(listener, settings, loaded.material)
        except ConfigError as error:
            self._reloads[listener, "failed"] += 1
            problem = f"new keys or certificates of listener {listener} are not used: {error}"
            if loaded.problem != problem:
                log.error("%s", problem)
            loaded.problem = problem
        else:
            self._reloads[listener, "done"] += 1
            loaded.files, loaded.problem = files, None
            keys = loaded.material.keys
            log.info(
                "new connections of listener %s use new keys and certificates%s",
                listener,
                "" if keys is None else f"; the certificate of {keys.infos[0].subject} ends {keys.infos[0].not_after}",
            )

    def report(self) -> Mapping[str, Mapping[str, object]]:
        """Return the certificates and settings that are in force on each listener."""
        return {name: tls_report(loaded.material, loaded.problem) for name, loaded in self._loaded.items()}

    def collect(self) -> Iterable[Sample]:
        """Yield the metrics of TLS: replacements of keys, ends of certificates, and ciphers of open connections."""
        keys = {listener: loaded.material.keys for listener, loaded in self._loaded.items()}
        ends_s = {name: store.infos[0].not_after.timestamp() for name, store in keys.items() if store is not None}
        return tls_samples(self._reloads, ends_s, self._ciphers.open)


def _found_by_sasl(certificate: bytes | None) -> Principal | None:
    del certificate
    return None


def _signature(settings: TlsSettings) -> Signature:
    """Return the state of the files; symbolic links are followed, so that Kubernetes' exchange of a folder is seen."""
    found = []
    for location in (settings.keys.location, settings.trust.location):
        if location is not None:
            try:
                status = Path(location).stat()
            except OSError:
                found.append((0, 0, 0))
            else:
                found.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(found)

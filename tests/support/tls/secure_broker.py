"""Properties of brokers with TLS, and of clients that connect to them."""

import ssl
from collections.abc import Mapping
from pathlib import Path

from tests.support.tls.authority import Authority, KeyFiles

LISTENER = "SECURE"
PREFIX = "listener.name.secure."


class TlsWorld:
    """One authority in a folder, with a broker's certificate and those of clients."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority()
        self.trusted = folder / "ca.pem"
        self.trusted.write_text(self.authority.pem)
        self.broker = self.authority.issue("CN=broker,O=Sluice", "127.0.0.1", "localhost").write(folder, "broker")

    def client(self, subject: str, name: str) -> KeyFiles:
        return self.authority.issue(subject).write(self.folder, name)

    def properties(self, **more: str) -> Mapping[str, str]:
        """Properties of the listener SECURE; names of `more` have underscores for dots, and get its prefix."""
        return {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SSL",
            "num.partitions": "1",
            f"{PREFIX}ssl.keystore.type": "PEM",
            f"{PREFIX}ssl.keystore.location": str(self.broker.store),
            f"{PREFIX}ssl.truststore.type": "PEM",
            f"{PREFIX}ssl.truststore.location": str(self.trusted),
        } | {PREFIX + name.replace("_", "."): value for name, value in more.items()}

    def confluent(self, files: KeyFiles | None = None) -> dict[str, str]:
        """Settings of a client of librdkafka."""
        settings = {"security.protocol": "SSL", "ssl.ca.location": str(self.trusted)}
        if files is not None:
            settings |= {"ssl.certificate.location": str(files.certificate), "ssl.key.location": str(files.key)}
        return settings

    def context(self, files: KeyFiles) -> ssl.SSLContext:
        """Settings of a client that wants Python's own, such as aiokafka."""
        context = ssl.create_default_context(cafile=str(self.trusted))
        context.load_cert_chain(str(files.certificate), str(files.key))
        return context

    def kafka_python(self, files: KeyFiles | None = None) -> dict[str, str]:
        """Settings of a client of kafka-python."""
        settings = {"security_protocol": "SSL", "ssl_cafile": str(self.trusted)}
        if files is not None:
            settings |= {"ssl_certfile": str(files.certificate), "ssl_keyfile": str(files.key)}
        return settings

"""The TLS settings of one listener, as typed values. Pure."""

from dataclasses import dataclass, field

NONE, REQUESTED, REQUIRED = "none", "requested", "required"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyStoreSettings:
    """The settings of a private key and its certificates, in a file or in the texts themselves.

    `prefix` names the keys. Secrets are never part of a representation.
    """

    prefix: str = ""
    type: str = "JKS"
    location: str | None = None
    password: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    chain: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)

    @property
    def is_given(self) -> bool:
        return any(text is not None for text in (self.location, self.key, self.chain))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustStoreSettings:
    """The settings of the trusted certificates, in a file or in the text itself. `prefix` names the keys."""

    prefix: str = ""
    type: str = "JKS"
    location: str | None = None
    password: str | None = field(default=None, repr=False)
    certificates: str | None = field(default=None, repr=False)

    @property
    def is_given(self) -> bool:
        return self.location is not None or self.certificates is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """The TLS settings of one listener, and of this node's connections to that listener of other nodes."""

    keys: KeyStoreSettings = KeyStoreSettings()
    trust: TrustStoreSettings = TrustStoreSettings()
    newest: str = "TLSv1.3"
    protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: tuple[str, ...] = ()
    client_auth: str = NONE
    principal_rules: str = "DEFAULT"
    check_names: bool = True
    """Whether this node checks the names in the certificates of other nodes."""
    server_name: str | None = None
    """The name that certificates of other nodes must have; None for the host that this node connects to."""
    allow_dn_changes: bool = False
    allow_san_changes: bool = False
    pem_max_bytes: int = 1_048_576

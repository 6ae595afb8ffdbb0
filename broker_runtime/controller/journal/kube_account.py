"""Find the API server of a controller's journal, and the account: KUBECONFIG's, or the pod's own."""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from broker_runtime.errors import ConfigError
from kafka_bytes.pem import ascii_pem

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Account:
    """The address of an API server, and the credentials for it."""

    url: str
    namespace: str
    certificate_file: str | None
    certificate: str | None
    token: Callable[[], str]


def find_account(namespace: str | None, environment: Mapping[str, str]) -> Account:
    """Return the account in KUBECONFIG, else the pod's service account. Raises ConfigError."""
    path = environment.get("KUBECONFIG")
    if path:
        return _from_kubeconfig(Path(path), namespace)
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    folder = Path(environment.get("SLUICEGATE_SERVICE_ACCOUNT_FOLDER", str(_ACCOUNT)))
    if not host or not (folder / "token").exists():
        raise ConfigError(
            "sluicegate.controller.journal=kubernetes needs an API server: run in a pod with a service account, or set "
            "KUBECONFIG"
        )
    return Account(
        f"https://{f'[{host}]' if ':' in host else host}:{port}",
        namespace or (folder / "namespace").read_text().strip(),
        str(folder / "ca.crt"),
        None,
        lambda: (folder / "token").read_text().strip(),
    )


def _from_kubeconfig(path: Path, namespace: str | None) -> Account:
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"KUBECONFIG={path} must be a kubeconfig in JSON: {error}") from error
    try:
        by_name = {c["name"]: c["context"] for c in document["contexts"]}
        context = by_name[document["current-context"]]
        cluster = next(c["cluster"] for c in document["clusters"] if c["name"] == context["cluster"])
        user = next(u["user"] for u in document["users"] if u["name"] == context["user"])
        token = user["token"]
    except (KeyError, StopIteration) as error:
        raise ConfigError(f"KUBECONFIG={path}: {error} is missing; only tokens are supported") from error
    inline = cluster.get("certificate-authority-data")
    return Account(
        cluster["server"],
        namespace or context.get("namespace", "default"),
        cluster.get("certificate-authority"),
        None if inline is None else ascii_pem(base64.b64decode(inline).decode("utf-8", "replace")),
        lambda: str(token),
    )

"""Passwords of KafkaUsers in Secrets: made, rotated, or taken from a Secret of the user."""

import base64
import secrets
from collections.abc import Mapping
from typing import Any

from sluicegate_operator.api.models.kafka_user import ROTATE, KafkaUser
from sluicegate_operator.engine.context.context import SecretStore, StoredSecret
from sluicegate_operator.kube.http.errors import KubeError, NameTakenError
from sluicegate_operator.planning.status.conditions import NAME_TAKEN
from sluicegate_operator.planning.users.user_status import UserTrouble
from sluicegate_operator.resources.secrets.user_secret import PASSWORD, user_secret

_BYTES = 24
"""Random bytes of a password, which are 32 characters."""


class PasswordError(Exception):
    """Error for a password that cannot be made or read. `trouble` is for the status."""

    def __init__(self, trouble: UserTrouble) -> None:
        super().__init__(trouble.message)
        self.trouble = trouble


async def password_of(store: SecretStore, user: KafkaUser) -> tuple[str, str]:
    """Return a user's password, and the version of the Secret that now has it.

    Both are empty without authentication. Raises PasswordError, and KubeError for a refusal that may pass.
    """
    if user.spec.authentication is None:
        return "", ""
    try:
        found = await store.find_secret(user_secret(user, "", ""))
        # Without the annotation the password stays as it is.
        made_for = found.annotations.get(ROTATE, "") if found is not None else ""
        rotation = (user.metadata.annotations or {}).get(ROTATE, "") or made_for
        password = await _password(store, user, rotation, found)
        manifest = user_secret(user, password, rotation)
        stored = found if found is not None and _is(found, manifest) else await store.apply_secret(manifest)
    except NameTakenError as error:
        raise PasswordError(UserTrouble(NAME_TAKEN, str(error), stuck=True)) from None
    except KubeError as error:
        if error.status == 403:
            message = (
                f"Secret {user.name} cannot be written, because the operator has no right to Secrets: install the chart"
                " with rbac.secrets=true"
            )
            raise PasswordError(UserTrouble("SecretUnusable", message, stuck=True)) from None
        if error.retriable:
            raise
        message = f"Secret {user.name} cannot be written: {error}"
        raise PasswordError(UserTrouble("SecretUnusable", message, stuck=True)) from None
    return password, stored.version


def _is(found: StoredSecret, manifest: Mapping[str, Any]) -> bool:
    """Return whether the Secret equals the manifest, so that nothing is written."""
    [owner] = manifest["metadata"]["ownerReferences"]
    wanted = {name: base64.b64decode(value) for name, value in manifest["data"].items()}
    rotation = manifest["metadata"].get("annotations", {}).get(ROTATE, "")
    return (found.owner, found.data, found.annotations.get(ROTATE, "")) == (owner["uid"], wanted, rotation)


async def _password(store: SecretStore, user: KafkaUser, rotation: str, found: StoredSecret | None) -> str:
    assert user.spec.authentication is not None
    source = user.spec.authentication.password
    if source is not None:
        return await _given(store, user, source.value_from.secret_key_ref.name, source.value_from.secret_key_ref.key)
    is_current = found is not None and found.annotations.get(ROTATE, "") == rotation
    # Another client may have written something else, which brokers never had.
    kept = _line(found.data.get(PASSWORD, b"")) if found is not None and is_current else None
    return kept or secrets.token_urlsafe(_BYTES)


async def _given(store: SecretStore, user: KafkaUser, name: str, key: str) -> str:
    where = "authentication.password"
    if name == user.name:
        message = f"{where} names Secret {name}, which the operator writes itself: use another Secret"
        raise PasswordError(UserTrouble("SecretUnusable", message, stuck=True))
    data = await store.read_secret(user.namespace, name)
    value = (data or {}).get(key)
    if not value:
        what = "does not exist: create it" if data is None else f"has no key {key}: add it"
        message = f"Secret {name}, which {where} names, {what}"
        raise PasswordError(UserTrouble("SecretUnusable", message, stuck=True))
    text = _line(value)
    if text is None:
        message = f"the key {key} of Secret {name} is not one line of text: write the password without a line break"
        raise PasswordError(UserTrouble("SecretUnusable", message, stuck=True))
    return text


def _line(value: bytes) -> str | None:
    """Return the text; None if it is not one line, as clients need it in their settings."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return None if any(character in text for character in "\r\n\0") else text

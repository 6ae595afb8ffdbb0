"""The Secret with the password of a KafkaUser, with the keys that Strimzi's users know."""

import base64
from typing import Any

from sluicegate_operator.api.models.kafka_user import ROTATE, KafkaUser
from sluicegate_operator.resources.labels import labels
from sluicegate_operator.resources.owner import child_metadata

USERNAME, PASSWORD, JAAS = "username", "password", "sasl.jaas.config"
_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"


def user_secret(user: KafkaUser, password: str, rotation: str) -> dict[str, Any]:
    """Return the manifest of a KafkaUser's Secret.

    `rotation` is the value of the annotation for which the password was made.
    """
    values = {
        USERNAME: user.user_name,
        PASSWORD: password,
        JAAS: f"{_LOGIN} required username={_quoted(user.user_name)} password={_quoted(password)};",
    }
    metadata = child_metadata(user, user.name, labels(user.spec.cluster_ref.name, "user"))
    if rotation:
        metadata["annotations"] = {ROTATE: rotation}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": "Opaque",
        "data": {name: base64.b64encode(value.encode()).decode() for name, value in sorted(values.items())},
    }


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

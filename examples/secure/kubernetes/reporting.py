"""Settings of the pod reporting: the token of its service account, which Kubernetes renews, is read when one is due."""

import base64
import json
import os
from pathlib import Path

PLACE = "/var/run/secrets/sluicegate/token"


def token(_: str) -> tuple[str, float]:
    """Return the token, and the time when it expires."""
    text = Path(os.environ.get("TOKEN", PLACE)).read_text()
    claims = text.split(".")[1]
    return text, float(json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"])


confluent_kafka = {
    "bootstrap.servers": "shop-tokens.secure.svc:9096",
    "security.protocol": "SASL_SSL",
    "ssl.ca.location": "/etc/shop/ca.crt",
    "sasl.mechanism": "OAUTHBEARER",
    "oauth_cb": token,
    "group.id": "reporting",
}

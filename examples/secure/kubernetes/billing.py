"""Settings of the pod billing: the Secret of its KafkaUser is a folder, and a rotated password a changed file."""

from pathlib import Path

confluent_kafka = {
    "bootstrap.servers": "shop-secure.secure.svc:9095",
    "security.protocol": "SASL_SSL",
    "ssl.ca.location": "/etc/shop/ca.crt",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": Path("/etc/billing/username").read_text(),
    "sasl.password": Path("/etc/billing/password").read_text(),
    "group.id": "billing",
}

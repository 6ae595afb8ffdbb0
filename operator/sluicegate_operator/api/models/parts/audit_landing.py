"""Where the segments of a cluster's audit log are stored, and the settings of the landing container in each pod."""

import re
from typing import ClassVar

from pydantic import Field

from sluicegate_operator.api.schema.images import image_rule
from sluicegate_operator.api.schema.names import OBJECT_NAME_PATTERN
from sluicegate_operator.api.schema.quantities import QUANTITY_PATTERN, Quantity, amount, is_quantity
from sluicegate_operator.api.schema.resource_amounts import Resources
from sluicegate_operator.api.schema.rules import Model, Rule

QUOTA_MIN = "1Mi"
URI_PATTERN = "^s3://[a-z0-9][-.a-z0-9]{1,61}[a-z0-9](/[^?#@$ ]*)?([?][^?#@$ ]*)?$"
"""Without a user and password before the bucket: every user who may read the object would see them."""


def object_name_rule(field: str, what: str) -> Rule:
    attribute = re.sub("([A-Z])", lambda found: f"_{found[1].lower()}", field)
    return Rule(
        cel=f"!has(self.{field}) || self.{field}.matches('{OBJECT_NAME_PATTERN}')",
        message=f"{field} must be the name of a {what}: lower-case letters, digits, '-' and '.'",
        allows=lambda model: (
            getattr(model, attribute) is None
            or re.fullmatch(OBJECT_NAME_PATTERN, getattr(model, attribute)) is not None
        ),
        field=field,
    )


def uri_rule() -> Rule:
    return Rule(
        cel=f"!has(self.uri) || self.uri.matches('{URI_PATTERN}')",
        message="uri must be s3://bucket/path with options after a '?', for example s3://audit/shop?region=eu-west-1,"
        " and without credentials: set secretName for them",
        allows=lambda model: model.uri is None or re.fullmatch(URI_PATTERN, model.uri) is not None,
        field="uri",
    )


class AuditLanding(Model):
    rules: ClassVar = (
        Rule(
            cel="has(self.uri) != has(self.claimName)",
            message="segments go to one place: set exactly one of uri (s3://bucket/path) and claimName",
            allows=lambda landing: (landing.uri is None) != (landing.claim_name is None),
        ),
        uri_rule(),
        object_name_rule("claimName", "PersistentVolumeClaim"),
        object_name_rule("secretName", "Secret"),
        image_rule("sluicegate"),
        Rule(
            cel=f"!has(self.quota) || (self.quota.matches('{QUANTITY_PATTERN}')"
            f" && quantity(self.quota).compareTo(quantity('{QUOTA_MIN}')) >= 0)",
            message=f"quota must be a Kubernetes quantity of at least {QUOTA_MIN}, for example 100Gi",
            allows=lambda landing: (
                landing.quota is None or (is_quantity(landing.quota) and amount(landing.quota) >= amount(QUOTA_MIN))
            ),
            field="quota",
        ),
    )

    uri: str | None = Field(default=None, min_length=1, max_length=1024)
    """Location in an object store, s3://bucket/path, with options such as region and endpoint_override after a '?'.
    Only this cluster may use it."""
    claim_name: str | None = Field(default=None, min_length=1, max_length=253)
    """Name of a PersistentVolumeClaim in the same namespace that all brokers' pods can write at the same time. Segments
    are in a folder with the cluster's name."""
    secret_name: str | None = Field(default=None, min_length=1, max_length=253)
    """Name of a Secret in the same namespace whose keys become environment variables of the landing process, such as
    AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. Brokers start even if the Secret is missing, and a change of it needs
    no restart."""
    retention_days: int | None = Field(default=None, ge=1, le=36500)
    """Age in days after which segments are deleted; they are never deleted for their age if absent."""
    quota: Quantity | None = None
    """Maximum size of all segments, for example 100Gi; above it the oldest segments are deleted. No limit if absent."""
    image: str | None = Field(default=None, min_length=1, max_length=512)
    """Image of the landing container in each broker's pod, which must include Arrow. If absent: the cluster's image if
    it names one, else the image of the operator's own version with Arrow."""
    resources: Resources | None = None
    """Requests and limits of the landing container in each broker's pod. A resource that is in neither gets the
    operator's defaults: requests of 50m cpu and 256Mi memory, limits of 2 cpu and 2Gi memory. If the container is
    killed for its memory, the broker's pod is not ready until the container runs again."""


class AuditSettings(Model):
    """The audit log of these brokers."""

    landing: AuditLanding
    """A second container in each broker's pod converts the audit log that the broker has written into Parquet files."""

"""Names of container images in specs, and of the Secrets with which they are pulled."""

import re
from typing import Annotated

from pydantic import Field

from sluicegate_operator.api.schema.names import OBJECT_NAME_PATTERN
from sluicegate_operator.api.schema.rules import Rule

IMAGE_PATTERN = (
    # [registry[:port]/]name[/name...][:tag][@digest], as container runtimes read it.
    "^([a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?([.][a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?)*(:[0-9]{1,5})?/)?"
    "[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)*"
    "(:[a-zA-Z0-9_][-a-zA-Z0-9_.]{0,127})?"
    "(@[a-zA-Z][a-zA-Z0-9]*([-_+.][a-zA-Z][a-zA-Z0-9]*)*:[0-9a-fA-F]{32,})?$"
)
PullSecrets = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=253)], ...], Field(max_length=16)]


def image_rule(example: str) -> Rule:
    """Return the rule for a spec's field `image`."""
    return Rule(
        cel=f"!has(self.image) || self.image.matches('{IMAGE_PATTERN}')",
        message=f"image must be the name of a container image, for example registry.example.org/{example}:0.1.0",
        allows=lambda spec: spec.image is None or re.fullmatch(IMAGE_PATTERN, spec.image) is not None,
        field="image",
    )


def pull_secrets_rule() -> Rule:
    """Return the rule for a spec's field `imagePullSecrets`."""
    return Rule(
        cel=f"!has(self.imagePullSecrets) || self.imagePullSecrets.all(x, x.matches('{OBJECT_NAME_PATTERN}'))",
        message="each of imagePullSecrets must be the name of a Secret: lower-case letters, digits, '-' and '.'",
        allows=lambda spec: all(re.fullmatch(OBJECT_NAME_PATTERN, name) for name in spec.image_pull_secrets or ()),
        field="imagePullSecrets",
    )

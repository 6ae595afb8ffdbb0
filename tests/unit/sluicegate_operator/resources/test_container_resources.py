"""A ResourceQuota refuses a pod with a container that lacks the counted resource: all of ours must have it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sluicegate_operator.api.schema.quantities import amount
from sluicegate_operator.api.schema.resource_amounts import Resources
from sluicegate_operator.resources import container_resources as own
from sluicegate_operator.resources.container_resources import container_resources

Json = dict[str, Any]

GOLDEN = Path(__file__).parent / "golden"
COUNTED = {"cpu", "memory"}


def containers(document: Json) -> Iterator[Json]:
    """Containers of the pods that a child makes, at any place of the template."""
    for name, part in document.items():
        if name in ("containers", "initContainers"):
            yield from part
        elif isinstance(part, dict):
            yield from containers(part)


def made_by(*patterns: str) -> list[Json]:
    files = sorted(path for pattern in patterns for path in GOLDEN.glob(pattern))
    return [container for path in files for container in containers(yaml.safe_load(path.read_text()))]


def test_every_container_of_ours_requests_what_a_quota_counts() -> None:
    found = made_by("*-statefulset-*.yaml", "*-cronjob-*.yaml")
    assert {container["name"] for container in found} >= {"broker", "controller", "lander"}
    for container in found:
        assert set(container["resources"]["requests"]) | set(container["resources"]["limits"]) >= COUNTED


def test_containers_have_default_requests_and_limits() -> None:
    found = made_by("least-statefulset-*.yaml", "pipeline-job-*.yaml")
    assert len(found) == 3
    for container in found:
        assert set(container["resources"]["requests"]) == set(container["resources"]["limits"]) == COUNTED


@pytest.mark.parametrize("otherwise", [own.BROKER, own.CONTROLLER, own.LANDER, own.AUDIT_JOB])
def test_no_request_of_ours_is_above_its_limit(otherwise: Resources) -> None:
    requests, limits = otherwise.requests or {}, otherwise.limits or {}
    assert requests.keys() == limits.keys() == COUNTED
    assert all(amount(requests[name]) <= amount(limits[name]) for name in COUNTED)


CPU = {"requests": {"cpu": "100m"}, "limits": {"cpu": "2"}}
MEMORY = {"requests": {"memory": "128Mi"}, "limits": {"memory": "1Gi"}}


@pytest.mark.parametrize(
    ("said", "becomes"),
    [
        (None, {part: CPU[part] | MEMORY[part] for part in CPU}),
        ({"limits": {"memory": "64Mi"}}, {"requests": CPU["requests"], "limits": {"memory": "64Mi"} | CPU["limits"]}),
        ({"requests": {"memory": "9Gi"}}, {"requests": {"memory": "9Gi"} | CPU["requests"], "limits": CPU["limits"]}),
        (
            {"limits": {"vendor.example/device": "1"}},
            {
                "requests": CPU["requests"] | MEMORY["requests"],
                "limits": CPU["limits"] | MEMORY["limits"] | {"vendor.example/device": "1"},
            },
        ),
    ],
    ids=["nothing is said", "a limit is its request", "a request has no limit", "another resource"],
)
def test_a_users_resources_replace_the_defaults_of_that_resource(said: Json | None, becomes: Json) -> None:
    resources = Resources.model_validate(said) if said is not None else None
    assert container_resources(resources, own.BROKER) == becomes

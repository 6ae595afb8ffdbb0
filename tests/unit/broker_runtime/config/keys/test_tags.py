"""Keys `tag.<name>`: allowed names and values."""

import pytest

from broker_runtime.config import UpdateMode, broker_key, broker_settings
from broker_runtime.config.in_force.effective import effective_config
from broker_runtime.config.keys.tags import BUILT_IN_TAGS, TAGS_MAX, tag_key, tags_in, tags_problem
from broker_runtime.errors import ConfigError

FILE = {"node.id": "1"}


@pytest.mark.parametrize("name", ["tag.rack", "tag.aws.zone", "tag.topology.kubernetes.io/zone", "tag.A_b-9"])
def test_a_tag_is_a_dynamic_key(name: str) -> None:
    key = broker_key(name)
    assert key is not None
    assert key.mode is UpdateMode.CLUSTER_WIDE
    assert key.parse(" r8a9 ") == "r8a9"


@pytest.mark.parametrize(
    "name", ["tag.", "tag", "tag..a", "tag.a b", "tag.ä", "tag." + "a" * 129, "listener.name.x.tag.a"]
)
def test_an_invalid_tag_name_is_not_a_key(name: str) -> None:
    assert broker_key(name) is None


@pytest.mark.parametrize("tag", [tag.name for tag in BUILT_IN_TAGS])
def test_built_in_tags_cannot_be_configured(tag: str) -> None:
    with pytest.raises(ConfigError, match=f"each broker reports its own {tag}"):
        broker_settings({**FILE, f"tag.{tag}": "x"})


def test_a_value_has_a_limit_in_bytes() -> None:
    key = tag_key("tag.a")
    assert key is not None
    assert key.parse("ä" * 128) == "ä" * 128
    with pytest.raises(ConfigError, match="at most"):
        key.parse("ä" * 128 + "x")


def test_a_file_has_so_many_tags_at_most() -> None:
    tags = {f"tag.t{number}": "x" for number in range(TAGS_MAX)}
    assert tags_problem(tags) is None
    assert len(tags_in(broker_settings({**FILE, **tags}).given)) == TAGS_MAX
    with pytest.raises(ConfigError, match=f"{TAGS_MAX + 1} keys begin with tag.; at most {TAGS_MAX} are"):
        broker_settings({**FILE, **tags, "tag.more": "x"})


def test_tags_are_in_force_by_their_levels() -> None:
    settings = broker_settings({**FILE, "tag.rack": "file", "tag.zone": "file"})
    effective = effective_config(settings, {"tag.rack": "all", "tag.cluster": "k3"}, {"tag.rack": "own"})
    assert [effective.values[f"tag.{name}"] for name in ("rack", "zone", "cluster")] == ["own", "file", "k3"]
    assert effective.ignored == ()

"""Changes between two revisions."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate_operator.planning.layout.restart_reasons import (
    NodeRevision,
    ReasonKind,
    RestartReason,
    decode_revision,
    node_revision,
    restart_reasons,
)

PROPERTIES = {"num.partitions": "1", "listeners": "INTERNAL://h:1", "log.dirs": "/d"}


def revision(image: str = "a:1", resources: object = None, template: object = None, **changes: str) -> NodeRevision:
    properties = PROPERTIES | {key.replace("_", "."): value for key, value in changes.items()}
    return node_revision(properties, image, resources, {"image": image, "template": template})


@pytest.mark.parametrize(
    ("wanted", "kinds", "keys"),
    [
        (revision(), [], ()),
        (revision(num_partitions="2"), [ReasonKind.CONFIG_CHANGED], ("num.partitions",)),
        (revision(new_key="x"), [ReasonKind.CONFIG_CHANGED], ("new.key",)),
        (revision(listeners="INTERNAL://h:2"), [ReasonKind.LISTENERS_CHANGED], ("listeners",)),
        (revision(image="a:2"), [ReasonKind.IMAGE_CHANGED], ()),
        (revision(resources={"limits": {}}), [ReasonKind.RESOURCES_CHANGED], ()),
        (revision(template="new"), [ReasonKind.POD_TEMPLATE_CHANGED], ()),
        (
            revision(image="a:2", num_partitions="2", listeners="x"),
            [ReasonKind.CONFIG_CHANGED, ReasonKind.LISTENERS_CHANGED, ReasonKind.IMAGE_CHANGED],
            ("num.partitions",),
        ),
    ],
)
def test_reasons(wanted: NodeRevision, kinds: list[ReasonKind], keys: tuple[str, ...]) -> None:
    reasons = restart_reasons(revision(), wanted)
    assert [reason.kind for reason in reasons] == kinds
    assert (reasons[0].keys if reasons else ()) == keys


def test_a_key_that_is_taken_out_is_a_change() -> None:
    (reason,) = restart_reasons(revision(new_key="x"), revision())
    assert reason == RestartReason(ReasonKind.CONFIG_CHANGED, "new.key", ("new.key",))


def test_a_node_without_a_known_revision_is_restarted() -> None:
    (reason,) = restart_reasons(decode_revision(None), revision())
    assert reason.kind is ReasonKind.UNKNOWN_REVISION


@pytest.mark.parametrize("text", ["", "[]", "1", "{}", '{"keys":[],"image":"","resources":"","template":""}', "{x"])
def test_a_text_of_another_version_is_not_a_revision(text: str) -> None:
    assert decode_revision(text) is None


texts: Any = st.text(max_size=8)


@given(st.builds(NodeRevision, st.dictionaries(texts, texts), texts, texts, texts))
def test_a_revision_survives_its_annotation(made: NodeRevision) -> None:
    read = decode_revision(made.encode())
    assert read == made
    assert restart_reasons(read, made) == ()


def test_many_keys_are_counted_not_listed() -> None:
    (reason,) = restart_reasons(revision(), revision(**{f"k{n}": "x" for n in range(9)}))
    assert str(reason).endswith("k4 and 4 more)")
    assert len(reason.keys) == 9

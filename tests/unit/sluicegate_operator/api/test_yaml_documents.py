"""Text becomes documents, or a YAMLError: no text ends a command or an operator with another exception."""

from pathlib import Path

import pytest
import yaml

from sluicegate_operator.api.manifests import load_manifests
from sluicegate_operator.api.yaml_documents import documents_of

_BOMB = "a0: &a0 [1, 1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 30))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[" * 3_000, "nested too deeply"),
        ("".join(" " * n + "a:\n" for n in range(3_000)), "nested too deeply"),
        ("&a {b: *a}", "an alias names a value that contains it"),
        ("a: &a [*a]", "an alias names a value that contains it"),
        (_BOMB, "aliases repeat too many values"),
        ("9" * 5_000, "not of the type int"),
        ("a: 0x_", "not of the type int"),
        ("a: !!int abc", "not of the type int"),
        ("a: !!float abc", "not of the type float"),
        ("a: !!bool maybe", "not of the type bool"),
        ("a: !!timestamp abc", "not of the type timestamp"),
        ("a: !!set [b]", "not of the type"),
    ],
)
def test_text_that_is_no_usual_yaml_is_an_error_of_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(yaml.YAMLError, match=sentence):
        list(documents_of(text))


def test_usual_documents_are_read() -> None:
    text = "a: &a {b: 2026-11-22}\nc: *a\n---\n---\n- 1\n"
    assert list(documents_of(text)) == [{"a": {"b": "2026-11-22"}, "c": {"b": "2026-11-22"}}, None, [1]]


@pytest.mark.parametrize(
    ("items", "sentence"),
    [
        ("42", "items: must be a list of manifests"),
        ("{a: b}", "items: must be a list of manifests"),
        ("[1]", "items: must be a mapping with apiVersion and kind"),
        ("[null]", "items: must be a mapping with apiVersion and kind"),
    ],
)
def test_the_items_of_a_list_are_checked(tmp_path: Path, items: str, sentence: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(f"apiVersion: v1\nkind: List\nitems: {items}\n")
    (error,) = load_manifests([file]).errors
    assert str(error) == f"{file}, document 1: {sentence}"

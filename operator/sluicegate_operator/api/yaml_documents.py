"""Reads YAML documents as kubectl reads them. Every text that is not such YAML is a YAMLError. Pure."""

from collections.abc import Iterator
from typing import Any, Final

import yaml
from yaml.constructor import ConstructorError

_VALUES_MAX: Final = 1_000_000
"""The most values of a document in which each alias counts as a copy: a short file can stand for billions of values."""
_UNFIT: Final = (ValueError, KeyError, TypeError, AttributeError)
"""What PyYAML raises for a value that does not fit its tag."""


def documents_of(text: str) -> Iterator[Any]:
    """Yield the documents in a text, None for an empty one. Raises yaml.YAMLError.

    Dates stay text. A mapping with the same key twice is refused, and so is a value that contains itself.
    """
    loader = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is None:
                return
            _check_aliases(node)
            yield loader.construct_document(node)
    except RecursionError:
        raise yaml.YAMLError("has mappings or lists that are nested too deeply") from None
    finally:
        loader.dispose()


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_document(self, node: yaml.Node) -> Any:
        try:
            return super().construct_document(node)
        except _UNFIT as error:
            raise _unfit(node) from error

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except _UNFIT as error:
            raise _unfit(node) from error

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.value == "<<":
                continue
            if key.value in seen:
                sentence = f"the key {key.value} occurs twice; remove one of them"
                raise ConstructorError(None, None, sentence, key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _unfit(node: yaml.Node) -> ConstructorError:
    kind = node.tag.rpartition(":")[2]
    return ConstructorError(None, None, f"the value is not of the type {kind}", node.start_mark)


def _check_aliases(root: yaml.Node) -> None:
    """Raise ConstructorError if a value contains itself, or if aliases make the document too large."""
    sizes: dict[int, int] = {}
    """Values in a node, itself included, by the identity of the node; 0 while its parts are counted."""
    waiting = [(root, False)]
    while waiting:
        node, is_counted = waiting.pop()
        parts = _parts(node)
        if is_counted:
            sizes[id(node)] = 1 + sum(sizes[id(part)] for part in parts)
            if sizes[id(node)] > _VALUES_MAX:
                raise ConstructorError(None, None, "aliases repeat too many values", node.start_mark)
        elif sizes.get(id(node)) == 0:
            raise ConstructorError(None, None, "an alias names a value that contains it", node.start_mark)
        elif id(node) not in sizes:
            sizes[id(node)] = 0
            waiting.append((node, True))
            waiting += [(part, False) for part in parts]


def _parts(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []

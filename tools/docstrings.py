"""`python -m tools.docstrings [PATH ...]`: docstrings whose first sentence does not name its object.

A reader sees the signature and the docstring. So the first sentence names what a function returns or does, what a class
is, or what an attribute's value means. A pronoun needs a noun before it in the same sentence. The check finds first
words that leave the object open. It prints each finding, and ends with 1 if there are any. Files without findings are
remembered by their hash, in .cache/.
"""

import ast
import hashlib
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(".cache/docstrings.json")

_CLAUSE = re.compile(
    r"^(?:Returns?|Yields?) (?:(?:what|where|who|whoever|whatever)\b|how (?!many\b|much\b|often\b|long\b|far\b|late\b))"
)
_PRONOUN = re.compile(
    r"^(?:(?:It|Its|They|Them|Their|Theirs|Ones)\b|(?:This|These|Those|Both|Such) (?:is|are|was|were|has|have|may)\b"
    r"|[A-Z]\w+ (?:(?:after|all|as|by|each of|for|from|if|in|of|on|since|that|to|until|when|which|while|with) )?"
    r"(?:it|its|them|they|their|theirs|ones)\b"
    r"|[A-Z]\w+ (?:this|these|those)(?:[.,;:]|$| (?:is|are|was|has|that|which|and|if|from|with|at|in)\b))"
)
_OF_CLASSES: Mapping[str, re.Pattern[str]] = {
    "a class begins with a clause": re.compile(r"^(?:What|How|Where|When|Who|Why|Whether)\b"),
    "a class begins with a field": re.compile(r"^`[^`]*`(?!:)[ ,:;]"),
    "a class begins with a verb of its parts": re.compile(
        r"^(?:Owns|Implements|Implemented|Has|Is|Are|See|Like|None|Nothing|Only|Not|Use|Raises|Called)\b"
    ),
}
_OF_ATTRIBUTES: Mapping[str, re.Pattern[str]] = {
    "an attribute begins with a value": re.compile(
        r"^(?:None|True|False|-?\d[\d,.]*)(?::| (?:if|when|while|until|before))"
    )
}
_OF_FUNCTIONS: Mapping[str, re.Pattern[str]] = {
    "a function begins with a parameter": re.compile(r"^`[^`]*`[:,]? (?:is|are|has)\b")
}
_OF_ALL: Mapping[str, re.Pattern[str]] = {"a clause in place of a noun": _CLAUSE, "a pronoun without a noun": _PRONOUN}


@dataclass(frozen=True, slots=True)
class OpenObject:
    """A docstring that does not name its object: its line, its first sentence, and the names of the patterns."""

    line: int
    sentence: str
    why: tuple[str, ...]


def open_objects(source: str) -> Iterator[OpenObject]:
    """Yield the docstrings of a Python file that do not name their object. Raises SyntaxError."""
    for node, text, patterns in _docstrings(ast.parse(source)):
        sentence = first_sentence(text)
        why = tuple(name for name, pattern in (*_OF_ALL.items(), *patterns.items()) if pattern.search(sentence))
        if why:
            yield OpenObject(node.lineno, sentence, why)


def first_sentence(docstring: str) -> str:
    """Return the first sentence of a docstring in one line."""
    paragraph = inspect.cleandoc(docstring).split("\n\n", 1)[0]
    return re.split(r"(?<=[.!?])\s+(?=[A-Z`])", " ".join(paragraph.split()), maxsplit=1)[0]


def _docstrings(tree: ast.AST) -> Iterator[tuple[ast.stmt, str, Mapping[str, re.Pattern[str]]]]:
    """Yield each docstring of a class, a function or an attribute, with the patterns for this kind."""
    for owner in ast.walk(tree):
        body = getattr(owner, "body", None)
        children: list[ast.stmt] = body if isinstance(body, list) else []
        for number, child in enumerate(children):
            if not (isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)):
                continue
            text, before = child.value.value, children[number - 1] if number else None
            if not isinstance(text, str):
                continue
            if number == 0 and isinstance(owner, ast.ClassDef):
                yield child, text, _OF_CLASSES
            elif number == 0 and isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef):
                yield child, text, {} if owner.name == "__init__" else _OF_FUNCTIONS
            elif isinstance(before, ast.Assign | ast.AnnAssign):
                yield child, text, _OF_ATTRIBUTES


def main(arguments: Sequence[str]) -> int:
    """Print the docstrings that do not name their object, and return 1 if there are any."""
    listing = subprocess.run(["git", "ls-files", "--", *arguments], capture_output=True, text=True, check=True)
    good, seen, number = _good_files(), set(), 0
    version = Path(__file__).read_bytes()
    for path in (Path(name) for name in listing.stdout.splitlines() if name.endswith(".py") and Path(name).is_file()):
        text = path.read_bytes()
        digest = hashlib.sha256(version + text).hexdigest()
        found = () if digest in good else tuple(open_objects(text.decode()))
        sys.stdout.writelines(f"{path}:{one.line}: {one.sentence[:160]} ({', '.join(one.why)})\n" for one in found)
        number += len(found)
        seen |= set() if found else {digest}
    CACHE.parent.mkdir(exist_ok=True)
    CACHE.write_text(json.dumps(sorted(seen | (good if arguments else set()))))
    if number:
        sys.stderr.write(f"{number} docstrings do not name their object in the first sentence: write its noun\n")
    return 1 if number else 0


def _good_files() -> set[str]:
    """Return the hashes of files without findings; none if the cache is missing or damaged."""
    try:
        return set(json.loads(CACHE.read_text()))
    except (OSError, ValueError):
        return set()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

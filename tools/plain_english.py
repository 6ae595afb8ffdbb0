"""`python -m tools.plain_english [PATH ...] [--most PERCENT]`: sentences that have to be read twice.

It reads docstrings, comments and Markdown. The patterns are those of CONTRIBUTING.md, "Plain English": pronouns instead
of nouns, inverted sentences, everyday verbs instead of technical terms, long sentences. They find places to check, and
no pattern is always right. With `--most`, a package with a larger share of such sentences is an error. Results are kept
by the hash of a file, in .cache/.
"""

import argparse
import ast
import hashlib
import io
import json
import re
import subprocess
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(".cache/plain-english")
WORDS_MAX = 32
SKIPPED = ("tests/support/data", "docs/images")
PATTERNS: Mapping[str, re.Pattern[str]] = {
    "begins with a pronoun or Of": re.compile(
        r"^(?:Of|Who|Whoever|Whatever|Nobody|Somebody|Everybody|Such|So many|So much|Those that|One that"
        r"|None (?:that|of))\b"
    ),
    "begins with What": re.compile(
        r"^What (?:is|was|has|had|comes|came|goes|went|cannot|can|may|must|more|a|an|the|people|brokers|others|only"
        r"|they|it|we|somebody|nobody|keeps|stands)\b"
    ),
    "an everyday verb for a technical act": re.compile(
        r"\b(?:told|tells? (?:of|nobody|somebody|all)|hears? of|heard|looked at|looks at|look-up|is said|are said"
        r"|says so|goes? on|goes? by|went on|comes? back|stands? (?:still|there|in|beside)|gives? way|lets? go|let go"
        r"|taken for|is over|at its most|is owed|are owed)\b",
        re.IGNORECASE,
    ),
    "a person for a part": re.compile(
        r"\b(?:nobody|somebody|everybody|whoever|who (?:asks|waits|reads|writes|has|was|is)|others'|of ours"
        r"|our (?:hand|own))\b"
    ),
    "an old word": re.compile(
        r"\b(?:anew|thereby|whereby|all the same|for it (?:would|is|has)|lest|as yet|ere|albeit|upon|hence"
        r"|by themselves|of itself|of its own accord)\b"
    ),
    "is no X": re.compile(r"\b(?:is|are|was|were) (?:no|none) [a-z]+\b"),
    "a relative clause with of": re.compile(
        r"(?:\bof which|\bof whom|, of (?:which|that|those)|\bthat it is of\b|\bis of\b|\bare of\b)"
    ),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """A sentence to check, on a line of a file, and the names of the patterns that it matches."""

    line: int
    sentence: str
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """The sentences of one file: their number, and those to check."""

    sentences: int
    findings: tuple[Finding, ...]


def read_text(name: str, text: str) -> Read:
    """Return the sentences of a Python or Markdown file. Raises SyntaxError."""
    parts = _of_python(text) if name.endswith(".py") else _of_markdown(text)
    found = [(line, sentence) for line, part in parts for sentence in _sentences(part)]
    flagged = (Finding(line, sentence, why) for line, sentence in found if (why := _why(sentence)))
    return Read(len(found), tuple(flagged))


def _sentences(text: str) -> list[str]:
    text = re.sub(r"`[^`]*`|\"[^\"]*\"", "X", " ".join(text.split()))
    return [one.strip() for one in re.split(r"(?<=[.!?:;])\s+", text) if len(one.split()) > 2]


def _why(sentence: str) -> tuple[str, ...]:
    found = [name for name, pattern in PATTERNS.items() if pattern.search(sentence)]
    if len(sentence.split()) > WORDS_MAX:
        found.append(f"more than {WORDS_MAX} words")
    return tuple(found)


def _of_python(source: str) -> Iterator[tuple[int, str]]:
    """Docstrings, also of attributes, and blocks of comments, each with its first line."""
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        for child in body if isinstance(body, list) else ():
            value = child.value if isinstance(child, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield child.lineno, value.value
    comment: list[str] = []
    began = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not re.match(r"#\s*(?:noqa|type:|fmt:|!)", token.string):
            began = began or token.start[0]
            comment.append(token.string.lstrip("# "))
        elif comment and token.type not in (tokenize.NL, tokenize.NEWLINE):
            yield began, " ".join(comment)
            comment, began = [], 0


def _of_markdown(text: str) -> Iterator[tuple[int, str]]:
    """Paragraphs without code blocks and links; a cell of a table is a sentence."""
    text = re.sub(r"```.*?```", lambda found: "\n" * found[0].count("\n"), text, flags=re.DOTALL)
    line = 1
    for block in text.split("\n\n"):
        yield line, re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", block).replace("|", ". ")
        line += block.count("\n") + 2


def read_file(path: Path) -> Read:
    """Return the sentences of a file, from the cache if the file's text was read before."""
    text = path.read_text(encoding="utf-8")
    version = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    kept = CACHE / hashlib.sha256(f"{version}{path.suffix}{text}".encode()).hexdigest()[:32]
    try:
        found = json.loads(kept.read_text(encoding="utf-8"))
        return Read(found[0], tuple(Finding(line, sentence, tuple(why)) for line, sentence, why in found[1]))
    except (OSError, ValueError):
        read = read_text(path.name, text)
    CACHE.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps([read.sentences, [[one.line, one.sentence, one.why] for one in read.findings]]))
    return read


def main(arguments: Sequence[str]) -> int:
    """Check the packages, and return 1 if one has too many sentences to check."""
    parser = argparse.ArgumentParser(prog="python -m tools.plain_english", description=__doc__)
    parser.add_argument("paths", nargs="*", default=["."])
    parser.add_argument("--most", type=float, help="maximum share of flagged sentences in a package, in percent")
    parser.add_argument("--worst", type=int, default=0, help="number of sentences to print")
    options = parser.parse_args(arguments)
    listing = subprocess.run(["git", "ls-files", "--", *options.paths], capture_output=True, text=True, check=True)
    total: dict[str, int] = defaultdict(int)
    flagged: dict[str, list[str]] = defaultdict(list)
    for name in listing.stdout.splitlines():
        path = Path(name)
        if path.suffix not in (".py", ".md") or name.startswith(SKIPPED) or not path.is_file():
            continue
        package = path.parts[0] if len(path.parts) > 1 else "the root"
        read = read_file(path)
        total[package] += read.sentences
        flagged[package] += (f"{name}:{one.line}: {one.sentence[:160]} ({', '.join(one.why)})" for one in read.findings)
    above = []
    for package in sorted(total):
        percent = 100 * len(flagged[package]) / max(1, total[package])
        if options.most is None or percent > options.most:
            sys.stdout.write(f"{package}: {len(flagged[package])} of {total[package]} sentences ({percent:.1f} %)\n")
            sys.stdout.writelines(f"  {one}\n" for one in flagged[package][: options.worst])
        if options.most is not None and percent > options.most:
            above.append(package)
    if above:
        sys.stderr.write(
            f"too many sentences have to be read twice in {', '.join(above)}: at most {options.most:g} %\n"
        )
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Hooks of MkDocs for the site of docs/ (mkdocs.yml).

- README.md is the first page of the site: it takes the place of docs/index.md.
- The site contains docs/ only. A link to another file of the repository becomes the file's path as code.
- A folder in `nav` stands for all of its pages.
- A block of code that does not end, or that is tagged YAML and is not YAML, is a warning.

MkDocs itself checks the links and the anchors within docs/. With `strict: true` every warning fails the build.
"""

import logging
import posixpath
import re
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any, Protocol

import yaml

ROOT = Path(__file__).parents[1]
DOCS, HOME = "docs", "index.md"
log = logging.getLogger("mkdocs.hooks.docs_site")
_FENCED = re.compile(r"^(?P<fence>```+)(?P<language>\w*)\n(?P<code>.*?)^(?P=fence)[ \t]*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\[\]]+)\]\((?P<target>[^()\s]+)\)")


class _File(Protocol):
    @property
    def src_uri(self) -> str: ...


class _Page(Protocol):
    @property
    def file(self) -> _File: ...


def on_config(config: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Replace each folder in `nav` by its pages."""
    config["nav"] = with_folders(config["nav"], ROOT / DOCS)
    return config


def on_page_markdown(markdown: str, *, page: _Page, config: object, files: object) -> str:
    """Return the Markdown of a page for the site, whose links are valid there."""
    uri = page.file.src_uri
    source = ROOT / "README.md" if uri == HOME else ROOT / DOCS / uri
    text = source.read_text(encoding="utf-8") if uri == HOME else markdown
    for problem in problems_of_blocks(text):
        log.warning("%s: %s", source.relative_to(ROOT), problem)
    return for_site(text, source.relative_to(ROOT).parent.as_posix(), posixpath.dirname(uri))


def with_folders(nav: Any, docs: Path) -> Any:
    """Return the navigation with the sorted pages of `docs/reference/` in place of the string "reference/"."""
    if isinstance(nav, list):
        return [with_folders(item, docs) for item in nav]
    if isinstance(nav, dict):
        return {title: with_folders(item, docs) for title, item in nav.items()}
    if isinstance(nav, str) and nav.endswith("/"):
        return [page.relative_to(docs).as_posix() for page in sorted((docs / nav).glob("*.md"))]
    return nav


def for_site(text: str, source: str, page: str) -> str:
    """Return Markdown whose links are valid on the site.

    `source` is the folder of the file in the repository, `page` that of the page in docs/. Blocks of code stay.
    """
    parts, end = [], 0
    for block in _FENCED.finditer(text):
        parts += [_linked(text[end : block.start()], source, page), block[0]]
        end = block.end()
    return "".join((*parts, _linked(text[end:], source, page)))


def problems_of_blocks(text: str) -> Iterator[str]:
    """Yield a sentence for each block of code that does not end, or that is tagged as YAML and is not valid YAML."""
    for block in _FENCED.finditer(text):
        if block["language"] == "yaml":
            try:
                list(yaml.safe_load_all(block["code"]))
            except yaml.YAMLError as error:
                yield f"a block is not YAML: {error}"
    if re.search(r"^```", _FENCED.sub("", text), re.MULTILINE):
        yield "a block of code has no end"


def _linked(text: str, source: str, page: str) -> str:
    return _LINK.sub(lambda link: _link(link, source, page), text)


def _link(link: re.Match[str], source: str, page: str) -> str:
    path, hash_sign, anchor = link["target"].partition("#")
    if "://" in path or not path:
        return link[0]
    there = posixpath.normpath(posixpath.join(source, path))
    if there == "README.md":
        there = f"{DOCS}/{HOME}"
    if there.startswith(f"{DOCS}/") and not (ROOT / there).is_dir():
        return f"[{link['text']}]({posixpath.relpath(there, f'{DOCS}/{page}')}{hash_sign}{anchor})"
    if not (ROOT / there).exists():
        log.warning("%s in %s/ names a file that does not exist", link[0], source)
    shown = link["text"].strip("`").rstrip("/")
    return f"`{there}`" if there.endswith(shown) else f"{link['text']} (`{there}`)"

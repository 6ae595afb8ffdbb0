"""Places in object stores: whether two URIs of specs name one place, or one of them is inside the other. Pure.

A URI is parsed like `pyarrow.fs.FileSystem.from_uri` does: path and options may be percent-encoded.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import parse_qsl, unquote

from sluicegate_operator.api.schema.addresses import canonical_host

_SCHEME = "s3://"
_URIS_KEPT = 4096
_ENDPOINT, _ENDPOINT_SCHEME, _DEFAULT_SCHEME = "endpoint_override", "scheme", "https"
_HOST = re.compile(r"(?:([A-Za-z]+)://)?([^/?#@]+)/*")
"""An endpoint without a path: its scheme, if any, and its host with its port."""
_AWS = re.compile(r"s3[-.a-z0-9]*\.amazonaws\.com(\.cn)?")
"""AWS' own endpoints. A bucket's name is unique over all regions."""


@dataclass(frozen=True, slots=True)
class StorePlace:
    """A folder in an object store. `store` is its host and port, without the default port of its scheme.

    `store` is empty for AWS, and if the environment names the store.
    """

    store: str
    folder: str

    def is_within(self, other: "StorePlace") -> bool:
        """Return whether this place is `other` or a folder inside `other`."""
        return self.store == other.store and f"{self.folder}/".startswith(f"{other.folder}/")

    def overlaps(self, other: "StorePlace") -> bool:
        """Return whether both places are the same, or one of them is inside the other."""
        return self.is_within(other) or other.is_within(self)


@lru_cache(_URIS_KEPT)
def store_place(uri: str) -> StorePlace:
    """Return the place that a valid URI names."""
    options = dict(_options(uri))
    return StorePlace(_store(options.get(_ENDPOINT, ""), options.get(_ENDPOINT_SCHEME, "")), _folder(uri))


def _store(endpoint: str, scheme: str) -> str:
    named, _, address = endpoint.lower().rpartition("://")
    host = canonical_host(address.rstrip("/"), named or scheme.lower() or _DEFAULT_SCHEME)
    return "" if _AWS.fullmatch(host) else host


def canonical_uri(uri: str) -> str:
    """Return the same text for all spellings of a URI.

    The order of options means nothing, but that of two values of one option may. Percent-encoding is undone as far as
    the text stays unambiguous. The host of an endpoint is in lower case, without the default port of its scheme.
    """
    found = _options(uri)
    scheme = dict(found).get(_ENDPOINT_SCHEME, _DEFAULT_SCHEME)
    if [value for key, value in found if key == _ENDPOINT_SCHEME] == [_DEFAULT_SCHEME]:
        found.remove((_ENDPOINT_SCHEME, _DEFAULT_SCHEME))
    found = [(key, _endpoint(value, scheme) if key == _ENDPOINT else value) for key, value in found]
    options = "&".join(f"{_quoted(key, '%&+=')}={_quoted(value, '%&+')}" for key, value in found)
    return f"{_SCHEME}{_quoted(_folder(uri), '%?#')}" + (f"?{options}" if options else "")


def _endpoint(text: str, scheme: str) -> str:
    """Return the same text for all spellings of an endpoint. A path in it may be case-sensitive and stays."""
    match = _HOST.fullmatch(text)
    if match is None:
        return text
    named = (match[1] or "").lower()
    host = canonical_host(match[2], named or scheme)
    return f"{named}://{host}" if named else host


def _folder(uri: str) -> str:
    """Return the bucket and the path in it, decoded."""
    return unquote(uri.partition("?")[0].removeprefix(_SCHEME), errors="surrogateescape").rstrip("/")


def _options(uri: str) -> list[tuple[str, str]]:
    """Return the URI's options, sorted by key."""
    found = parse_qsl(uri.partition("?")[2], keep_blank_values=True, errors="surrogateescape")
    return sorted(found, key=lambda option: option[0])


def _quoted(text: str, special: str) -> str:
    return "".join(f"%{ord(character):02X}" if character in f"{special} " else character for character in text)

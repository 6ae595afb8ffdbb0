"""Reads the manifests of results, built and live: files of JSON that contain their format."""

from typing import Any, TypeVar

import msgspec

from audit_pipeline.errors import BadUseError, first_line
from audit_pipeline.spool.targets import Target

T = TypeVar("T")


def read_manifest_file(target: Target, path: str, kind: type[T], wanted: int, results: str, do: str) -> T | None:
    """Return the manifest in a file of the results; None without a file.

    `results` names its subject, `do` the remedy if it is damaged. Raises OSError, and BadUseError for a damaged one or
    another format than `wanted`.
    """
    try:
        with target.file_system.open_input_stream(path) as file:
            packed = file.read()
    except FileNotFoundError:
        return None
    try:
        found = msgspec.json.decode(packed, type=dict[str, Any]).get("format")
        if found != wanted:
            raise BadUseError(
                f"{results} have format {found}, but this version reads format {wanted}: give another folder"
            )
        return msgspec.json.decode(packed, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadUseError(damaged(f"{path} of {results}", error, do)) from None


def read_note(target: Target, path: str, kind: Any) -> Any | None:
    """Read a file of JSON in which upkeep notes its work; None without one.

    Raises OSError, and BadUseError for a damaged one.
    """
    try:
        with target.file_system.open_input_stream(path) as file:
            packed = file.read()
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(packed, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadUseError(damaged(path, error, "restore the file from a copy of the folder")) from None


def damaged(what: str, error: Exception | str, do: str) -> str:
    """Return the sentence about a damaged file: its fault, and what to do."""
    return f"{what} is damaged ({first_line(error) if isinstance(error, Exception) else error}): {do}"

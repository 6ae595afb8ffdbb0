"""schemas/audit_event.v1.json between its two users: the broker that writes spools, and the pipeline."""

import hashlib
import json
from pathlib import Path
from struct import Struct

import pytest

from audit_pipeline.contract import COMMON, SCHEMA_FILES, contract
from audit_pipeline.spool.spool import read_spool
from audit_pipeline.spool.tables import arrow_schema
from broker_runtime.apis.request.call import Ending
from broker_runtime.network.connection.connection_notices import NoticeKind
from broker_runtime.observers.audit_log import layout
from broker_runtime.observers.audit_log.clients import ClientFacts
from broker_runtime.observers.surroundings import HostedPartition
from broker_runtime.storage.disk.filesystem import OsFileSystem
from broker_runtime.wire.versions import UNREGISTER_BROKER
from tests.support.audit.audit import AuditBench

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"
FROZEN = {
    "audit_event.v1.json": "37d3a83a0d3cdc63f72012940009f3390580bf7375232ef0ac290c9314210c3a",
    "audit_event.v1.1.json": "2405c4e5d2cd1553a00d4fd4879d297b0449ed4cd0cab75a5e7c040b49270504",
    "audit_event.v1.2.json": "93a0670d2aa82ffdaac8f437a44b48425cb8f4a8476be832d0b74302a985ef12",
    "audit_event.v1.3.json": "0c58d020f9e5cd82d1b17d6a9e789d5fed61b3023300b60cc5721794083c0fdb",
    "audit_event.v1.4.json": "fbcf307c07bf8b172aa92b9715453b0a383193efdd8c9e86fb8e9faf4884c9f4",
}
"""SHA-256 of each schema's content. A released schema never changes: files of years are read by it."""
NOT_RELEASED = {"audit_result.v1.json"}
"""Results are always computed from events: their tables may change until users rely on them.

A minor version of events is here until a release has it: it may gain columns until then.
"""

SPOOL = contract().spool


@pytest.mark.parametrize("name", FROZEN)
def test_a_released_schema_does_not_change(name: str) -> None:
    content = json.loads((SCHEMAS / name).read_text(encoding="utf-8"))
    canonical = json.dumps(content, sort_keys=True, ensure_ascii=False)
    assert hashlib.sha256(canonical.encode()).hexdigest() == FROZEN[name], (
        f"{name} has changed. Readers of old files rely on it: what has to be told otherwise goes into a new version, "
        "in a file of its own, which is added here"
    )


def test_every_schema_is_frozen_when_it_is_released() -> None:
    assert {path.name for path in SCHEMAS.glob("*.json")} == FROZEN.keys() | NOT_RELEASED


@pytest.mark.parametrize(
    ("rows", "packed"), [("request_row", layout.REQUEST_ROW), ("partition_row", layout.PARTITION_ROW)]
)
def test_rows_are_packed_as_the_schema_says(rows: str, packed: Struct) -> None:
    assert "<" + "".join(code for _, code, _ in SPOOL[rows]) == packed.format


def test_marks_names_and_places_are_those_of_the_schema() -> None:
    assert SPOOL["magic"].encode() == layout.MAGIC
    assert SPOOL["block_mark"].encode() == layout.BLOCK_MARK
    assert contract().version == layout.SCHEMA_VERSION
    assert [*ClientFacts._fields, "group_id"] == SPOOL["client_fields"]
    assert [ending.value for ending in Ending] == SPOOL["endings"]
    assert {ending.value: place for place, ending in enumerate(Ending)} == layout.ENDINGS


def test_every_table_begins_with_the_same_fields_and_says_what_each_field_means() -> None:
    for table in contract().tables.values():
        assert tuple(field.name for field in table.fields[: len(COMMON)]) == COMMON
        assert set(table.key) <= {field.name for field in table.fields}
        assert all(field.meaning.endswith(".") for field in table.fields)
        assert len(arrow_schema(table.name)) == len(table.fields)


def test_minor_versions_add_only_nullable_columns_at_the_end_of_tables_and_tables() -> None:
    first, *minor = (json.loads((SCHEMAS / name).read_text(encoding="utf-8")) for name in SCHEMA_FILES)
    assert [each["minor_version"] for each in minor] == [1, 2, 3, 4]
    assert contract().minor == 4
    expected = {name: [field["name"] for field in table["fields"]] for name, table in first["tables"].items()}
    old = {name: len(fields) for name, fields in expected.items()}
    for added in minor:
        for name, columns in added["tables"].items():
            expected[name] += [field["name"] for field in columns]
        for name, table in added.get("new_tables", {}).items():
            assert name not in expected
            expected[name] = [field["name"] for field in table["fields"]]
    assert {name: [field.name for field in table.fields] for name, table in contract().tables.items()} == expected
    for name, count in old.items():
        assert all(field.nullable for field in contract().tables[name].fields[count:])


def test_what_a_broker_writes_of_other_tables_has_a_value_for_each_field(tmp_path: Path) -> None:
    bench = AuditBench(OsFileSystem(), tmp_path, level="rollup")
    for kind in NoticeKind:
        bench.connect(kind)
    bench.produce()
    bench.log.inventory(HostedPartition("orders", 0, 1, 0, 1, True))
    bench.change(UNREGISTER_BROKER, 0, {"broker_id": 4}, {"error_code": 0, "error_message": None})
    bench.log.close()

    (path,) = tmp_path.glob("*.spool")
    written = [other for block in read_spool(path.read_bytes()).blocks for other in block.others]

    assert {table for table, *_ in written} == {"connection", "inventory", "rollup", "change"}
    for table, *values in written:
        assert len(values) == len(contract().tables[table].fields) - len(COMMON) + 1, table

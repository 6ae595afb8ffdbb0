import duckdb

from demo.audited import COUNTED, Audited, Counted, expect_complete
from demo.checks import Expectations


def missed(audited: Audited, acknowledged: int) -> list[str]:
    expectations = Expectations()
    expect_complete(audited, acknowledged, expectations)
    return expectations.missed


def test_a_log_without_findings_and_with_every_acknowledged_message_is_as_expected() -> None:
    assert missed(Audited(0, "", Counted(100, 10, 0)), acknowledged=100) == []
    assert missed(Audited(0, "", Counted(101, 10, 0)), acknowledged=100) == [], "one was written, its answer was lost"


def test_findings_and_missing_messages_are_told() -> None:
    assert missed(Audited(1, "hole: ...", Counted(99, 10, 0)), acknowledged=100) == [
        "the audit log has holes, duplicates or gaps, see above",
        "100 messages were acknowledged, but the audit log has only 99 of them",
    ]


def test_the_question_has_the_fields_that_are_read() -> None:
    database = duckdb.connect()
    database.execute("CREATE TABLE partition (api_key INT, topic TEXT, error_code INT, records BIGINT)")
    database.execute("CREATE TABLE connection (event TEXT)")
    database.execute("INSERT INTO partition VALUES (0, 'orders', 0, 3), (0, 'other', 0, 5), (1, 'orders', 0, 7)")
    database.execute("INSERT INTO connection VALUES ('accepted'), ('accepted'), ('limited')")
    asked = database.sql(COUNTED.format(topic="orders"))
    assert Counted(**dict(zip(asked.columns, asked.fetchall()[0], strict=True))) == Counted(3, 2, 1)

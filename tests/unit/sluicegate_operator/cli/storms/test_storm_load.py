import struct

from sluicegate_operator.cli.storms.storm_load import API_VERSIONS_REQUEST, CLIENT_ID, CORRELATION_ID


def test_a_storm_identifies_itself_by_its_client_id() -> None:
    size, key, version, correlation, length = struct.unpack_from(">ihhih", API_VERSIONS_REQUEST)
    assert size == len(API_VERSIONS_REQUEST) - 4
    assert (key, version, correlation) == (18, 0, CORRELATION_ID)
    assert API_VERSIONS_REQUEST[14:].decode() == CLIENT_ID == "sluicegate-storm"
    assert length == len(CLIENT_ID)

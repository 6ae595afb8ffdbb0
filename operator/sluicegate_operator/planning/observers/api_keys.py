"""Kafka's APIs in the filter of an observer: by name, in any case and with or without `_`, or by number.

The names are repeated here, like the defaults of config_defaults; a unit test compares the two. They are only used to
compare filters.
"""

from collections.abc import Mapping

API_NUMBERS: Mapping[str, int] = {
    "produce": 0,
    "fetch": 1,
    "listoffsets": 2,
    "metadata": 3,
    "offsetcommit": 8,
    "offsetfetch": 9,
    "findcoordinator": 10,
    "joingroup": 11,
    "heartbeat": 12,
    "leavegroup": 13,
    "syncgroup": 14,
    "describegroups": 15,
    "listgroups": 16,
    "saslhandshake": 17,
    "apiversions": 18,
    "createtopics": 19,
    "deletetopics": 20,
    "deleterecords": 21,
    "initproducerid": 22,
    "offsetforleaderepoch": 23,
    "addpartitionstotxn": 24,
    "addoffsetstotxn": 25,
    "endtxn": 26,
    "writetxnmarkers": 27,
    "txnoffsetcommit": 28,
    "describeacls": 29,
    "createacls": 30,
    "deleteacls": 31,
    "describeconfigs": 32,
    "alterconfigs": 33,
    "alterreplicalogdirs": 34,
    "describelogdirs": 35,
    "saslauthenticate": 36,
    "createpartitions": 37,
    "deletegroups": 42,
    "electleaders": 43,
    "incrementalalterconfigs": 44,
    "alterpartitionreassignments": 45,
    "listpartitionreassignments": 46,
    "offsetdelete": 47,
    "describeclientquotas": 48,
    "alterclientquotas": 49,
    "describeuserscramcredentials": 50,
    "alteruserscramcredentials": 51,
    "describequorum": 55,
    "alterpartition": 56,
    "updatefeatures": 57,
    "envelope": 58,
    "fetchsnapshot": 59,
    "describecluster": 60,
    "describeproducers": 61,
    "brokerregistration": 62,
    "brokerheartbeat": 63,
    "unregisterbroker": 64,
    "describetransactions": 65,
    "listtransactions": 66,
    "allocateproducerids": 67,
    "consumergroupheartbeat": 68,
    "consumergroupdescribe": 69,
    "gettelemetrysubscriptions": 71,
    "pushtelemetry": 72,
    "listconfigresources": 74,
    "describetopicpartitions": 75,
    "brokermetadata": 30000,
    "replicarange": 30006,
    "describelogdamage": 30007,
    "acceptlogloss": 30008,
    "connectionshares": 30009,
}
"""The number of each API of the brokers by its name in lower case, without `_`."""


def canonical_api(text: str) -> str:
    """Return the same text for all spellings of an API in a filter: its number if the API is known."""
    if text.isascii() and text.isdecimal():
        return text.lstrip("0") or "0"
    name = text.replace("_", "").lower()
    return str(API_NUMBERS.get(name, name))

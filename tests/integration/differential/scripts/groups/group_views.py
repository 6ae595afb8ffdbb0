"""Lists and descriptions of groups that only keep offsets."""

from tests.integration.differential.play import Play
from tests.integration.differential.scripts.groups.offsets import READ, prepared
from tests.support.processes.clients.wire_client import trimmed


def commits(on: Play, group: str) -> bool:
    partition = {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": 0, "committed_metadata": ""}
    fields = {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": READ, "partitions": [partition]}],
    }
    answer = on.quietly("offset_commit", 8, **fields)
    return bool(answer["topics"][0]["partitions"][0]["error_code"] == "none")


def described(on: Play) -> None:
    prepared(on)
    group = f"described-{on.number}"
    on.until(lambda: commits(on, group))
    for version in range(7):
        for step, groups in (("one", [group]), ("none", []), ("what is not there", ["nothing"]), ("empty", [""])):
            fields = {"groups": groups, "include_authorized_operations": False}
            on.ask(
                f"describe {step}, version {version}",
                "describe_groups",
                version,
                **trimmed("describe_groups", version, fields),
            )
    for version in range(2):
        fields = {"group_ids": [group, "nothing"], "include_authorized_operations": False}
        on.ask(f"describe as KIP-848, version {version}", "consumer_group_describe", version, **fields)
    for version in range(3, 7):
        fields = {"groups": [group, "nothing", ""], "include_authorized_operations": True}
        on.ask(f"describe with operations, version {version}", "describe_groups", version, **fields)
    for version in range(6):
        for step, states, types in (
            ("all", [], []),
            ("empty ones", ["eMPTY"], []),
            ("stable ones", ["Stable"], []),
            ("of no such state", ["Nonsense"], []),
            ("classic ones", [], ["CLASSIC"]),
            ("those of KIP-848", [], ["consumer"]),
            ("of no such type", [], ["nonsense"]),
        ):
            fields = trimmed("list_groups", version, {"states_filter": states, "types_filter": types})
            answer = on.quietly("list_groups", version, **fields)
            mine = [each for each in answer["groups"] if each["group_id"] == group]
            on.note(f"list {step}, version {version}", answer | {"groups": mine})

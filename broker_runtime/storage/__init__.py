"""Kafka's log on disk: a folder for each partition, and a few small files for all of them.

Problem. Thousands of logs share one event loop, and the produce path must cost one write. Processes are killed, power
fails, disks fill up, and files are damaged. A record that was vouched for must survive, or the broker must notice its
loss and stop vouching for it.

Idea. `storage.log.log.Log` appends batches to the page cache, and `log.log_syncs` makes them durable in threads
(`disk`). `log.log_offsets` derives from both which records count and which ones consumers may read. Checkpoints
(`checkpoints`, `ledger`, `run_record`) record what is durable. A start (`startup_loader`, `loader`, `recovery`) trusts
what lies below the recovery point, scans the rest, and cuts only what a crash explains. Everything else is damage. If
readable batches follow it, it becomes a damaged range of the log, which `mending` can replace by another replica's
batches. Otherwise the partition is not served.

Invariants:

- Only complete writes count. Bytes that a failed write left are never read, and are cut before the next append.
- A power loss takes nothing below a log's recovery point. It rises after a sync. A cut lowers it on disk
  first.
- A failed fsync takes the log offline until a restart has read the disk. A file that could not be opened does not.
- Offsets grow without a gap, unless the folder has the file `swap.GAPS_FILE`.
- Replacing a file or a segment leaves the old one or the new one, whenever a crash interrupts it.
- Work in threads uses open files and numbers, nothing that the event loop changes meanwhile.

Folders, from the top: `log_dir` has all logs of a folder, `damage` and `compaction` change closed segments, `log` is
one log, `recovery` opens segments after a crash, `segment` is one segment, `records` knows the bytes of batches, and
`disk` has files and syncs. Each uses only those after it.

Tests are in tests/unit/broker_runtime/storage. `test_power_loss`, `test_replica_histories` and
`compaction/test_histories` run random histories on a machine that fails.
"""

"""The keys of the log cleaner, under Kafka's names. Pure."""

from broker_runtime.config.declaring.allowed import at_least, between
from broker_runtime.config.declaring.declaration import Config, dynamic, static
from broker_runtime.config.declaring.definition import DOUBLE_MAX, Key, Type


class LogCleanerConfig(Config):
    """Configuration keys of the resources that cleaning compacted logs may use."""

    log_cleaner_enable: Key[bool] = static(
        "log.cleaner.enable", Type.BOOLEAN, True, "Whether compacted logs are cleaned."
    )
    log_cleaner_threads: Key[int] = dynamic(
        "log.cleaner.threads",
        Type.INT,
        1,
        "Changes nothing, not even 0: one log is cleaned at a time, because with more threads the event loop would "
        "wait for each of them.",
        at_least(0),
    )
    log_cleaner_io_max_bytes_per_second: Key[float] = dynamic(
        "log.cleaner.io.max.bytes.per.second",
        Type.DOUBLE,
        DOUBLE_MAX,
        "Bytes that the cleaner reads and writes a second, on average.",
        at_least(1),
    )
    log_cleaner_dedupe_buffer_size: Key[int] = dynamic(
        "log.cleaner.dedupe.buffer.size",
        Type.LONG,
        128 << 20,
        "Memory for the keys of one cleaning, bytes: about 208 for each key. It is allocated as needed; a log with "
        "more keys takes several cleanings.",
        at_least(1 << 20),
    )
    log_cleaner_io_buffer_size: Key[int] = dynamic(
        "log.cleaner.io.buffer.size",
        Type.INT,
        512 << 10,
        "Bytes that the cleaner reads, and writes, at a time; a larger batch is read as a whole.",
        at_least(0),
    )
    log_cleaner_io_buffer_load_factor: Key[float] = dynamic(
        "log.cleaner.io.buffer.load.factor",
        Type.DOUBLE,
        0.9,
        "Share of log.cleaner.dedupe.buffer.size that is used.",
        between(0, 1),
    )
    log_cleaner_backoff_ms: Key[int] = dynamic(
        "log.cleaner.backoff.ms",
        Type.LONG,
        15_000,
        "Wait before the cleaner checks again when there is nothing to clean, ms.",
        at_least(0),
    )

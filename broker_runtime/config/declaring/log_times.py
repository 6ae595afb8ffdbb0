"""Keys for the times of log maintenance, under Kafka's names. Pure."""

from broker_runtime.config.declaring.allowed import at_least
from broker_runtime.config.declaring.declaration import Config, static
from broker_runtime.config.declaring.definition import LONG_MAX, Key, Type


class LogTimesConfig(Config):
    """Configuration keys of the times of logs that topics cannot override."""

    log_retention_hours: Key[int] = static(
        "log.retention.hours", Type.INT, 168, "log.retention.ms in hours.", at_least(-1)
    )
    log_retention_minutes: Key[int | None] = static(
        "log.retention.minutes", Type.INT, None, "log.retention.ms in minutes.", at_least(-1)
    )
    log_roll_hours: Key[int] = static("log.roll.hours", Type.INT, 168, "log.roll.ms in hours.", at_least(1))
    log_retention_check_interval_ms: Key[int] = static(
        "log.retention.check.interval.ms",
        Type.LONG,
        300_000,
        "Time between two checks of a log for segments beyond retention.ms or retention.bytes, ms. One check takes a "
        "second for 256 logs. Segments below the log's start are deleted within seconds. (Kafka checks compacted logs "
        "every log.cleaner.backoff.ms.)",
        at_least(1),
    )
    log_initial_task_delay_ms: Key[int] = static(
        "log.initial.task.delay.ms",
        Type.LONG,
        30_000,
        "Time between the start and the first check for segments beyond retention.ms or retention.bytes, ms.",
        at_least(0),
    )
    log_flush_offset_checkpoint_interval_ms: Key[int] = static(
        "log.flush.offset.checkpoint.interval.ms",
        Type.INT,
        60_000,
        "Time between two writes of recovery-point-offset-checkpoint, ms. A start after a crash checks every batch "
        "after the recovery point.",
        at_least(0),
    )
    log_flush_scheduler_interval_ms: Key[int] = static(
        "log.flush.scheduler.interval.ms",
        Type.LONG,
        LONG_MAX,
        "Changes nothing: the broker checks 256 logs a second for those whose flush.ms has passed.",
        at_least(1),
    )

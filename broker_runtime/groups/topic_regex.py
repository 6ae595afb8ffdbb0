"""Subscriptions by a regular expression, which the coordinator matches with topic names (KIP-848). Pure."""

from broker_runtime.config.declaring.patterns import LENGTH_MAX, MEMORY_MAX_BYTES, Pattern, compile_pattern
from broker_runtime.errors import ConfigError, ErrorCode, KafkaError


def compile_topic_regex(text: str, length_max: int = LENGTH_MAX, memory_max_bytes: int = MEMORY_MAX_BYTES) -> Pattern:
    """Compile the regular expression of topics. Raises KafkaError (INVALID_REGULAR_EXPRESSION)."""
    try:
        return compile_pattern(text, length_max, memory_max_bytes)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from error

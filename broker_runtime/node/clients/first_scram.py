"""Reads the SCRAM credentials of a new cluster: brokers may need them before an administrator can create any. Shell."""

import logging
import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from broker_runtime.config import BrokerConfig, BrokerSettings
from broker_runtime.errors import ConfigError
from broker_runtime.metadata.areas.scram_credentials import SCRAM_NUMBERS, UserScramCredentialRecord
from broker_runtime.metadata.record import MetadataRecord

log = logging.getLogger(__name__)

_KEY = BrokerConfig.sluicegate_bootstrap_scram_file.name
_BOOTSTRAP = "broker_runtime.security.sasl.scram_bootstrap"
_SALT_BYTES = 16
_NUMBERS = {name: number for number, name in SCRAM_NUMBERS.items()}


def first_scram_records(settings: BrokerSettings) -> Sequence[MetadataRecord]:
    """Return the records of the credentials in the configured file; none if the file does not exist.

    The file is missing after the first start. Raises ConfigError.
    """
    path = settings.config.sluicegate_bootstrap_scram_file
    if path is None:
        return ()
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        log.info("%s: %s does not exist; a new cluster begins without credentials of SCRAM", _KEY, path)
        return ()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{_KEY}: {path} cannot be read: {error}") from None
    found = import_module(_BOOTSTRAP).first_credentials(text, _KEY, lambda: os.urandom(_SALT_BYTES))
    return [
        UserScramCredentialRecord(
            each.name,
            _NUMBERS[each.mechanism],
            each.keys.salt,
            each.keys.stored_key,
            each.keys.server_key,
            each.keys.iterations,
        )
        for each in found
    ]

"""Keys and certificates in force: the newest configuration wins over a look at the files that it overtook."""

import asyncio
import hashlib
from pathlib import Path

from broker_runtime.config import SecurityProtocol, broker_settings
from broker_runtime.config.in_force.effective import effective_config
from broker_runtime.node.tls.tls_in_force import TlsInForce
from tests.support.tls.secure_broker import LISTENER, PREFIX, TlsWorld


async def test_a_configuration_that_changes_while_files_are_looked_at_stays_in_force(tmp_path: Path) -> None:
    world = TlsWorld(tmp_path)
    own = {"node.id": "1", "listeners": f"{LISTENER}://127.0.0.1:0", "inter.broker.listener.name": LISTENER}
    settings = broker_settings({**world.properties(), **own})
    tls = TlsInForce(settings)
    tls.accepting(LISTENER, SecurityProtocol.SSL)
    issued = world.authority.issue("CN=broker,O=Sluice", "127.0.0.1", "localhost")
    other = issued.write(tmp_path, "other").store

    looking = asyncio.create_task(tls.check_files())
    await asyncio.sleep(0)
    tls.configure(effective_config(settings, {}, {f"{PREFIX}ssl.keystore.location": str(other)}))
    await looking

    assert tls.report()[LISTENER]["certificate"] == hashlib.sha256(issued.der).hexdigest()

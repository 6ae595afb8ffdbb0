"""Apply this broker's connection limits: configuration, `ip` quotas and connection groups, with host names resolved.

A stored value that cannot be applied is skipped and reported (`problems`); the others are in force.
"""

import logging
from collections.abc import Iterator
from itertools import islice
from typing import Protocol

from broker_runtime.config import BrokerSettings
from broker_runtime.config.declaring.addresses import canonical_address
from broker_runtime.config.in_force.effective import EffectiveConfig
from broker_runtime.errors import ConfigError
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.network.quotas.host_names import HostNames
from broker_runtime.node.host_limits import HostLimits
from broker_runtime.node.limits import group_limits, override_hosts, quota_settings
from connection_limits.groups.connection_group import AddressGroupLimits
from connection_limits.settings import QuotaSettings

log = logging.getLogger(__name__)

_GROUP_CHANGES_PER_PIECE = 100
_IP_QUOTAS_PER_PIECE = 32
"""An address takes about 20 microseconds."""


class LimitedServer(Protocol):
    """The part of SocketServer that applies limits."""

    def update_limits(self, quotas: QuotaSettings) -> None: ...

    def update_ip_rate(self, ip: str | None, rate: int | None) -> None: ...

    @property
    def connection_groups(self) -> "LimitedGroups": ...


class LimitedGroups(Protocol):
    """The part of ChangingGroups that applies limits."""

    def set_limits(self, name: str, limits: AddressGroupLimits) -> None: ...

    def set_member(self, name: str, member: str, number: float | None) -> None: ...


class LimitsInForce:
    """The connection limits of this broker: derived from its configuration, with host names resolved, and enforced.

    Nothing is durable: the limits follow the effective configuration and the client quotas of the metadata.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        effective: EffectiveConfig,
        image: MetadataImage,
        server: LimitedServer,
        host_names: HostNames,
    ) -> None:
        self._settings = settings
        self._effective = effective
        self._image = image
        self._server = server
        self._hosts = HostLimits(host_names, self._on_resolved)
        self._quota_hosts: set[str] = set()
        self._refused: str | None = None
        self._odd_members: set[tuple[str, str]] = set()

    @property
    def problems(self) -> list[str]:
        """Return a sentence for each stored value that is not in force."""
        refused = [] if self._refused is None else [self._refused]
        odd = [f"{len(self._odd_members)} members of connection groups are not used"] if self._odd_members else []
        return [*self._effective.ignored, *refused, *self._hosts.problems, *odd]

    async def start(self) -> None:
        """Resolve the host names in the properties file.

        Raises ConfigError for an unknown name: it would have no limit.
        """
        names = override_hosts(self._effective)
        unknown = await self._hosts.resolve(names)
        if unknown:
            raise ConfigError(
                f"{self._settings.source}: max.connections.per.ip.overrides: {', '.join(unknown)} cannot be "
                "resolved; correct the name, or use the address"
            )
        if names:
            self._apply()

    def configure(self, effective: EffectiveConfig) -> None:
        before = set(override_hosts(self._effective))
        self._effective = effective
        for problem in effective.ignored:
            log.warning("a stored configuration value is not used: %s", problem)
        names = set(override_hosts(effective))
        self._hosts.want(names | self._quota_hosts, names - before)
        self._apply()

    def on_ip_quotas(self, changed: set[str | None]) -> Iterator[None]:
        """Apply the changed quotas of `ip` entities in steps; None is the default entity.

        Entities whose quota is in force are removed from `changed`.
        """
        while changed:
            hosts: set[str] = set()
            for name in list(islice(changed, _IP_QUOTAS_PER_PIECE)):
                address = None if name is None else canonical_address(name)
                if name is None or address is not None:
                    self._set_rate(name, address)
                else:
                    self._apply_to_host(name)
                    hosts.add(name)
                changed.discard(name)
            if hosts:
                self._hosts.want(self._quota_hosts | set(override_hosts(self._effective)), hosts & self._quota_hosts)
            yield

    def _apply_to_host(self, name: str) -> None:
        if self._image.quotas.ip_rate(name) is not None:
            self._quota_hosts.add(name)
            return
        self._quota_hosts.discard(name)
        for address in self._hosts.addresses.get(name, ()):
            self._set_rate(address, address)

    def on_connection_groups(self, changed: set[tuple[str, str | None]]) -> Iterator[None]:
        """Apply changed connection groups, and members of groups, in steps; applied ones are removed from `changed`.

        Members join before others leave. So an address that moves to another group takes its connections with it. An
        address that has left all groups belongs to a new holder when it joins again.
        """
        leaving: set[tuple[str, str | None]] = set()
        try:
            while changed or leaving:
                for _ in range(min(len(changed) or len(leaving), _GROUP_CHANGES_PER_PIECE)):
                    source = changed or leaving
                    name, member = source.pop()
                    if source is changed and member is not None and self._number(name, member) is None:
                        leaving.add((name, member))
                        continue
                    try:
                        self._apply_to_group(name, member)
                    except Exception:
                        leaving.add((name, member))
                        raise
                yield
        finally:
            changed |= leaving

    def _number(self, name: str, member: str) -> float | None:
        """Return the number of the member's holder; None if the group does not have the member."""
        group = self._image.connection_groups.get(name)
        return None if group is None else group.members.get(member)

    def _apply_to_group(self, name: str, member: str | None) -> None:
        if member is None:
            group = self._image.connection_groups.get(name)
            self._server.connection_groups.set_limits(name, group_limits({} if group is None else group.keys))
            return
        self._odd_members.discard((name, member))
        try:
            self._server.connection_groups.set_member(name, member, self._number(name, member))
        except ValueError as error:
            # A controller of another version may know more kinds of members.
            self._odd_members.add((name, member))
            log.error("a member of connection group %s is not used: %s", name, error)

    def _set_rate(self, name: str | None, address: str | None) -> None:
        """Apply the rate of the entity `name` to `address`, which has the network layer's spelling."""
        rate = self._image.quotas.ip_rate(name)
        self._server.update_ip_rate(address, None if rate is None else int(rate))

    def _on_resolved(self) -> None:
        self._apply()
        for name in sorted(self._quota_hosts):
            for address in self._hosts.addresses.get(name, ()):
                self._set_rate(name, address)

    def _apply(self) -> None:
        try:
            self._server.update_limits(quota_settings(self._settings, self._effective, self._hosts.addresses))
        except ConfigError as error:
            self._refused = f"the limits are unchanged: {error}"
            log.error("%s", self._refused)
        else:
            self._refused = None

    async def close(self) -> None:
        await self._hosts.close()

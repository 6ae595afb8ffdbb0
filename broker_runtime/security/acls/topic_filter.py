"""Which topics a client may describe, for code that meets very many topics in another thread."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from broker_runtime.security.acls.model import AclOperation, AclResource
from broker_runtime.security.principal import Principal

if TYPE_CHECKING:
    from broker_runtime.security.acls.authorizer import StandardAuthorizer


@dataclass(frozen=True, slots=True)
class TopicFilter:
    """A filter of the topics that a client may describe, by the authorizer. Filters of the same client are equal."""

    principal: Principal
    host: str
    authorizer: "StandardAuthorizer" = field(compare=False, repr=False)

    def now(self) -> Callable[[str], bool]:
        """Return a function that checks a topic's name by the current ACLs.

        One thread may call it, whatever changes meanwhile.
        """
        authorizer, principal, host = self.authorizer.frozen(), self.principal, self.host

        def may_describe(topic: str) -> bool:
            return authorizer.allows(principal, host, AclOperation.DESCRIBE, AclResource.TOPIC, topic)

        return may_describe

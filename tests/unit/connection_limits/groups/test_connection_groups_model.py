"""Connection groups beside a model without tables: it scans every member and every connection, each time."""

from collections import Counter
from collections.abc import Sequence
from ipaddress import ip_address, ip_network

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from connection_limits.accept_decision import AcceptOutcome
from connection_limits.groups.connection_group import ANYBODY, NO_LIMITS, AddressGroupLimits
from connection_limits.quotas import ConnectionQuotas
from connection_limits.rate import Meter, meter
from connection_limits.settings import UNLIMITED, IpAction, QuotaSettings

LISTENER = "EXTERNAL"
NAMES = ["a", "b"]
IPS = ["10.0.0.1", "10.0.0.2", "10.0.1.1", "2001:db8::1"]
MEMBERS = ["10.0.0.1", "10.0.0.2", "10.0.0.0/31", "10.0.0.0/24", "10.0.0.0/8", "2001:db8::1", "::/0"]
SETTINGS = QuotaSettings(quota_window_num=2, max_connections_per_ip=7, ip_action=IpAction.DROP)


class Since:
    """Identity of one membership; `number` is its owner's."""

    def __init__(self, number: float) -> None:
        self.number = number


Member = tuple[str, str, Since]
"""Group, address or range, and the membership's identity."""
NUMBERS = st.sampled_from([ANYBODY, 7.0, 8.0])
LIMITS = st.builds(
    AddressGroupLimits,
    rate=st.sampled_from([1, 2, 4, UNLIMITED]),
    max_connections=st.sampled_from([1, 3, 5, UNLIMITED, UNLIMITED]),
    shared=st.booleans(),
    observe=st.booleans(),
)


class Client:
    """A connected client, from before or after its address was removed from all groups that listed it."""

    def __init__(self, ip: str, accepted_ms: int) -> None:
        self.ip = ip
        self.accepted_ms = accepted_ms
        self.is_from_before = False


class Model:
    """The settings in plain lists, and a meter for each rate."""

    def __init__(self) -> None:
        self.limits: dict[str, AddressGroupLimits] = {}
        self.lives: dict[str, object] = {}
        self.members: list[Member] = []
        self.open: list[Client] = []
        self.own: dict[str, int] = {}
        self.default: int | None = None
        self.ip_meters: dict[str, Meter] = {}
        self.meters: dict[object, Meter] = {}
        self.would_hold: dict[str, Counter[str]] = {}

    def in_force(self, name: str) -> bool:
        return self.limits.get(name, NO_LIMITS).limit_something

    def set_limits(self, name: str, limits: AddressGroupLimits) -> None:
        if not limits.limit_something:
            self.lives.pop(name, None)
            self.would_hold.pop(name, None)
        elif not self.in_force(name):
            self.lives[name] = object()
            self.would_hold[name] = Counter()
        if not limits.shared or limits.rate >= UNLIMITED or not self.in_force(name):
            self.meters.pop(name, None)
        self.limits[name] = limits

    def holders(self, ip: str, *, observing: bool) -> Sequence[Member]:
        around = [
            one
            for one in self.members
            if self.in_force(one[0])
            and self.limits[one[0]].observe is observing
            and ip_address(ip) in ip_network(one[1])
        ]
        longest = max((ip_network(member).prefixlen for _, member, _ in around), default=-1)
        if ip in self.own and not observing and longest < ip_address(ip).max_prefixlen:
            return []
        return [one for one in around if ip_network(one[1]).prefixlen == longest]

    def add(self, name: str, member: str, number: float) -> None:
        before = [one for one in self.members if one[:2] == (name, member)]
        if [one[2].number for one in before] == [number]:
            return
        known = {one[2].number for one in self.members if one[1] == member} - {ANYBODY}
        if number not in known and (before or (known and number != ANYBODY)):
            self.give_on(member)
        self.members = [one for one in self.members if one not in before] + [(name, member, Since(number))]

    def give_on(self, ip: str) -> None:
        for client in self.open:
            client.is_from_before |= client.ip == ip

    def remove(self, number: int) -> tuple[str, str]:
        name, member, _ = self.members.pop(number)
        if not any(one[1] == member for one in self.members):
            self.give_on(member)
        return name, member

    def connections(self, name: str) -> int:
        observe = self.limits[name].observe
        return sum(
            any(one[0] == name and counts(client, one[1]) for one in self.holders(client.ip, observing=observe))
            for client in self.open
        )

    def of_address(self, ip: str) -> int:
        return sum(client.ip == ip for client in self.open)

    def _meter(self, one: Member, ip: str, now_ms: int) -> Meter | None:
        name, member, token = one
        limits = self.limits[name]
        if limits.rate >= UNLIMITED:
            return None
        key: object = name if limits.shared else (member, token, self.lives[name], ip)
        known = self.meters.setdefault(key, meter(SETTINGS, limits.rate, now_ms))
        known.limit = limits.rate
        return known

    def over(self, holders: Sequence[Member], ip: str, now_ms: int) -> str | None:
        recorded = []
        for one in holders:
            known = self._meter(one, ip, now_ms)
            if known is None:
                continue
            known.record(now_ms)
            recorded.append(known)
            if known.throttle_ms(now_ms):
                for each in recorded:
                    each.unrecord(now_ms)
                return one[0]
        return None

    def full(self, holders: Sequence[Member], ip: str) -> str | None:
        for name, member, _ in holders:
            limits = self.limits[name]
            own = sum(client.ip == ip and counts(client, member) for client in self.open)
            if (self.connections(name) if limits.shared else own) >= limits.max_connections:
                return name
        return None

    def connect(self, ip: str, now_ms: int) -> tuple[AcceptOutcome, str | None]:
        holders = self.holders(ip, observing=False)
        limit = self.own.get(ip, self.default if not holders else None)
        own = None
        if limit is not None:
            own = self.ip_meters.setdefault(ip, meter(SETTINGS, limit, now_ms))
            own.limit = limit
            own.record(now_ms)
            if own.throttle_ms(now_ms):
                own.unrecord(now_ms)
                return AcceptOutcome.REFUSE_DROPPED, None
        over = self.over(holders, ip, now_ms)
        if over is not None:
            if own is not None:
                own.unrecord(now_ms)
            return AcceptOutcome.REFUSE_DROPPED, over
        full = self.full(holders, ip)
        if full is not None:
            return AcceptOutcome.REFUSE_TOO_MANY, full
        if self.of_address(ip) >= SETTINGS.max_connections_per_ip:
            return AcceptOutcome.REFUSE_TOO_MANY, None
        for one in self.holders(ip, observing=True):
            if self.over([one], ip, now_ms) is not None:
                self.would_hold[one[0]]["dropped"] += 1
            elif self.full([one], ip) is not None:
                self.would_hold[one[0]]["too_many"] += 1
        self.open.append(Client(ip, now_ms))
        return AcceptOutcome.ADMIT, None


def counts(client: Client, member: str) -> bool:
    """Whether the client counts for the member; a range counts every client in it."""
    return "/" in member or not client.is_from_before


class GroupsMachine(RuleBasedStateMachine):
    """Everything is counted again after each change, as happens a moment later."""

    def __init__(self) -> None:
        super().__init__()
        self.quotas = ConnectionQuotas(SETTINGS, 0)
        self.quotas.add_listener(LISTENER, 0)
        self.groups = self.quotas.addresses.groups
        self.model = Model()
        self.held: Counter[tuple[str, object, str]] = Counter()
        self.now_ms = 0

    def settle(self) -> None:
        while self.groups.recount(2):
            pass

    @initialize(limits=st.tuples(LIMITS, LIMITS), members=st.tuples(st.sampled_from(MEMBERS), st.sampled_from(MEMBERS)))
    def begin(self, limits: Sequence[AddressGroupLimits], members: Sequence[str]) -> None:
        for name, limit, member in zip(NAMES, limits, members, strict=True):
            self.set_limits(name, limit)
            self.add_member(name, member, ANYBODY)

    @rule(name=st.sampled_from(NAMES), limits=LIMITS | st.just(NO_LIMITS))
    def set_limits(self, name: str, limits: AddressGroupLimits) -> None:
        self.groups.set_limits(name, limits, self.now_ms)
        self.model.set_limits(name, limits)
        self.settle()

    @rule(name=st.sampled_from(NAMES), member=st.sampled_from(MEMBERS), number=NUMBERS)
    def add_member(self, name: str, member: str, number: float) -> None:
        self.groups.add_member(name, member, self.now_ms, number)
        self.model.add(name, member, number)
        self.now_ms += 1
        self.settle()

    @precondition(lambda self: self.model.members)
    @rule(data=st.data())
    def remove_member(self, data: st.DataObject) -> None:
        name, member = self.model.remove(data.draw(st.integers(0, len(self.model.members) - 1)))
        self.groups.remove_member(name, member, self.now_ms)
        self.now_ms += 1
        self.settle()

    @rule(ip=st.sampled_from([None, *IPS]), rate=st.none() | st.integers(1, 4))
    def set_ip_rate(self, ip: str | None, rate: int | None) -> None:
        self.quotas.addresses.update_rate(ip, rate, self.now_ms)
        if ip is None:
            self.model.default = rate
        elif rate is None:
            self.model.own.pop(ip, None)
        else:
            self.model.own[ip] = rate

    @rule(ip=st.sampled_from(IPS), times=st.integers(2, 6))
    def connect(self, ip: str, times: int) -> None:
        for _ in range(times):
            expected = self.model.connect(ip, self.now_ms)
            decision = self.quotas.on_accepted(LISTENER, ip, self.now_ms)
            assert (decision.outcome, decision.group) == expected
            if decision.group is not None:
                reason = "dropped" if decision.outcome is AcceptOutcome.REFUSE_DROPPED else "too_many"
                self.held[decision.group, self.model.lives[decision.group], reason] += 1

    @precondition(lambda self: self.model.open)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        client = self.model.open.pop(data.draw(st.integers(0, len(self.model.open) - 1)))
        self.quotas.on_closed(LISTENER, client.ip, self.now_ms, client.accepted_ms)

    @rule(pause_ms=st.sampled_from([0, 400, 1_000, 2_500]))
    def pass_time(self, pause_ms: int) -> None:
        self.now_ms += pause_ms

    @invariant()
    def groups_have_what_the_model_counts(self) -> None:
        model = self.model
        known = {name for name in NAMES if model.in_force(name) or any(one[0] == name for one in model.members)}
        assert self.groups.by_name.keys() == known
        for name, group in self.groups.by_name.items():
            assert group.members.keys() == {member for owner, member, _ in model.members if owner == name}
            assert group.connections == (model.connections(name) if model.in_force(name) else 0)
            assert group.would_hold == model.would_hold.get(name, {})
            life = model.lives.get(name)
            assert group.held == {
                reason: n for (of, when, reason), n in self.held.items() if (of, when) == (name, life)
            }


TestGroups = GroupsMachine.TestCase
TestGroups.settings = hypothesis_settings(max_examples=100, stateful_step_count=30, deadline=None)


class HastyMachine(GroupsMachine):
    """Clients connect and disconnect during a recount; the counts are right when it is done."""

    def settle(self) -> None:
        """Do nothing yet."""

    @rule(pieces=st.integers(1, 3))
    def recount(self, pieces: int) -> None:
        self.groups.recount(pieces)

    @rule(ip=st.sampled_from(IPS), times=st.integers(2, 6))
    def connect(self, ip: str, times: int) -> None:
        for _ in range(times):
            if self.quotas.on_accepted(LISTENER, ip, self.now_ms).outcome is AcceptOutcome.ADMIT:
                self.model.open.append(Client(ip, self.now_ms))

    @invariant()
    def groups_have_what_the_model_counts(self) -> None:
        assert all(group.connections >= 0 for group in self.groups.by_name.values())

    def teardown(self) -> None:
        super().settle()
        for name, group in self.groups.by_name.items():
            assert group.connections == (self.model.connections(name) if self.model.in_force(name) else 0)
        assert self.groups.active is any(map(self.model.in_force, NAMES))


TestHastyGroups = HastyMachine.TestCase
TestHastyGroups.settings = hypothesis_settings(max_examples=60, stateful_step_count=40, deadline=None)

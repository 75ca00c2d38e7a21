"""What nodes let jobs touch: rules about programs, directories, functions, addresses."""

from __future__ import annotations

import ipaddress
from dataclasses import replace

import msgspec
import pytest

from raftsched.core.model import Condition, ConditionKind, Policy, Trigger, TriggerKind
from raftsched.core.rules.allowed import (
    Allowed,
    Destinations,
    allowed_of,
    function_error,
    is_closed,
    permitted_addresses,
    run_error,
)
from raftsched.core.rules.eligibility import NOT_STARTED, Offer, lacking, offer
from raftsched.core.rules.hosts import literal, target_of_url
from raftsched.core.subjects.cluster import NodeRule, Session
from raftsched.hosts import asked_for, rule_asked_for

ALL = ("exec", "shell", "python", "http", "call")


def rules(*allow: str, deny: tuple[str, ...] = ()) -> Destinations:
    """As a node reads what its operator wrote."""
    return Destinations(tuple(map(rule_asked_for, allow)), tuple(map(rule_asked_for, deny)))


def asks(found: Destinations, address: str, host: str = "host.example", port: int = 80) -> bool:
    return found.refusal(asked_for(host), port, ipaddress.ip_address(address)) is None


class TestAddresses:
    @pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8"])
    def test_public_ones_are_asked(self, address: str) -> None:
        assert asks(rules(), address)

    @pytest.mark.parametrize(
        "address",
        [
            *("127.0.0.1", "127.8.9.10", "10.0.0.1", "172.16.3.4", "192.168.1.1", "100.64.0.1", "169.254.169.254"),
            *("0.0.0.0", "224.0.0.1", "255.255.255.255", "240.0.0.1", "192.0.2.1", "198.18.0.1"),
            *("::1", "::", "fe80::1", "fc00::1", "fd12::1", "ff02::1", "2001:db8::1"),
            *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "::7f00:1"),
        ],
    )
    def test_others_are_not(self, address: str) -> None:
        assert not asks(rules(), address)
        assert asks(rules("any"), address)

    @pytest.mark.parametrize(
        ("allow", "deny", "address", "host", "port", "asked"),
        [
            (("10.0.0.0/8",), (), "10.1.2.3", "a", 80, True),
            (("10.0.0.0/8",), ("10.1.0.0/16",), "10.1.2.3", "a", 80, False),
            (("10.1.2.0/24",), ("10.1.0.0/16",), "10.1.2.3", "a", 80, True),
            (("10.0.0.0/8",), ("10.0.0.0/8",), "10.1.2.3", "a", 80, False),
            (("private:443",), (), "10.1.2.3", "a", 443, True),
            (("private:443",), (), "10.1.2.3", "a", 80, False),
            (("loopback",), (), "::1", "a", 80, True),
            (("loopback",), (), "::ffff:127.0.0.1", "a", 80, True),
            (("*.corp.example",), (), "10.1.2.3", "Billing.Corp.Example.", 80, True),
            (("*.corp.example",), (), "10.1.2.3", "corp.example", 80, False),
            (("*.corp.example:443",), (), "10.1.2.3", "x.corp.example", 80, False),
            ((), ("any",), "8.8.8.8", "a", 80, False),
            (("api.example",), ("any",), "8.8.8.8", "api.example", 80, True),
            (("any",), ("169.254.169.254",), "169.254.169.254", "a", 80, False),
            (("any",), ("evil.example",), "8.8.8.8", "evil.example", 80, False),
            (("[::1]:8080",), (), "::1", "a", 8080, True),
        ],
    )
    def test_the_most_specific_rule_decides(
        self, allow: tuple[str, ...], deny: tuple[str, ...], address: str, host: str, port: int, asked: bool
    ) -> None:
        assert asks(Destinations(allow, deny), address, host, port) is asked

    @pytest.mark.parametrize("text", ["127.1", "0x7f000001", "2130706433", "0177.0.0.1", "127.0.0.1", "127.0.1"])
    def test_hosts_are_read_as_resolvers_read_them(self, text: str) -> None:
        assert str(literal(text)).startswith("127.0.")

    @pytest.mark.parametrize("text", ["a.example", "1.2.3.4.5", "256.1.1.1", "0x", "1..2", "", "127.0.0.0x100"])
    def test_names_are_names(self, text: str) -> None:
        assert literal(text) is None

    @pytest.mark.parametrize(
        "host",
        [
            *("vault.corp.example", "VAULT.Corp.example.", "vau\u00adlt.corp.example", "\uff56ault.corp.example"),
            *("vault\u3002corp.example", "v\u00aault.corp.example", "vault.corp.example\uff0e"),
        ],
    )
    def test_other_spellings_of_a_name_are_that_name(self, host: str) -> None:
        found = rules("*.corp.example", deny=("vault.corp.example",))
        assert not asks(found, "10.1.2.3", host)
        assert asks(found, "10.1.2.3", "\uff57eb.corp.example")

    @pytest.mark.parametrize("host", ["b\u00fccher.example", "xn--bcher-kva.example", "B\u00dcCHER.example."])
    def test_rules_name_hosts_in_any_script(self, host: str) -> None:
        assert asks(rules("b\u00fccher.example"), "10.1.2.3", host)
        assert not asks(rules(deny=("b\u00fccher.*",)), "8.8.8.8", host)

    def test_a_host_is_asked_at_the_addresses_that_are_allowed(self) -> None:
        assert permitted_addresses(rules(), "h", 80, ["10.0.0.1", "8.8.8.8", "8.8.8.8"]) == (["8.8.8.8"], None)
        found, why = permitted_addresses(rules(), "h", 80, ["10.0.0.1", "127.0.0.1"])
        assert found == []
        assert why == "asks nothing of 10.0.0.1 (h): it is a private address, and http_allow names nothing"

    @pytest.mark.parametrize(
        "rule", ["", "10.0.0.0/33", "a b", "http://x/", "host:0", "host:99999", "host:x", "10.0.0.1/8"]
    )
    def test_bad_rules_are_refused(self, rule: str) -> None:
        with pytest.raises(ValueError, match="http_allow"):
            allowed_of(ALL, {"http_allow": (rule,)})

    @pytest.mark.parametrize(
        ("url", "target"),
        [
            ("http://a/b", "a:80"),
            ("https://A.b?x", "a.b:443"),
            ("http://u:p@h:81#f", "h:81"),
            ("http://[fe80::1]/", "[fe80::1]:80"),
            ("nothing", ""),
        ],
    )
    def test_targets(self, url: str, target: str) -> None:
        assert target_of_url(url) == target


class TestRuns:
    ALLOWED = Allowed(exec=("/opt/jobs/*",), cwd=("/srv",), python=("shop.*", "os.path:exists"))

    @pytest.mark.parametrize(
        ("kind", "target", "cwd", "good"),
        [
            ("exec", "/opt/jobs/a", "", True),
            ("exec", "/opt/jobs/../../bin/sh", "", False),
            ("exec", "/opt/jobs//a", "", False),
            ("exec", "jobs/a", "", False),
            ("exec", "/bin/sh", "", False),
            ("exec", "/opt/jobs/a", "/srv/x", True),
            ("exec", "/opt/jobs/a", "/srv", True),
            ("exec", "/opt/jobs/a", "/srv/../etc", False),
            ("exec", "/opt/jobs/a", "/srvx", False),
            ("python", "shop.mail:send", "", True),
            ("python", "shop:send", "", False),
            ("python", "os.path:exists", "", True),
            ("python", "os.path:join", "", False),
            ("python", "os:system", "", False),
            ("call", "", "/etc", False),
        ],
    )
    def test_programs_functions_and_directories(self, kind: str, target: str, cwd: str, good: bool) -> None:
        assert (run_error(self.ALLOWED, kind, target, cwd) is None) is good

    @pytest.mark.parametrize(
        ("name", "item"),
        [("exec_allow", "backup"), ("exec_allow", "/a/../b"), ("cwd_allow", "srv"), ("python_allow", "os system"),
         ("python_allow", ":f"), ("python_allow", "m:"), ("env_allow", "A-B"), ("env_allow", "HOME"),
         ("env_allow", "LD_*"), ("env_allow", "")],
    )  # fmt: skip
    def test_bad_rules_are_refused(self, name: str, item: str) -> None:
        with pytest.raises(ValueError, match=name):
            allowed_of(("exec",), {name: (item,)})

    @pytest.mark.parametrize(
        ("name", "module", "good"),
        [
            ("shop.mail:send", "shop.mail", True),
            ("shop.mail:Shop.send", "shop.mail", True),
            ("shop.mail:render", "shop.text", True),
            ("shop.mail:os.system", "posix", False),
            ("shop.mail:system", "posix", False),
            ("shop.mail:Popen", "subprocess", False),
            ("shop.mail:send.__globals__.update", None, False),
            ("shop.mail:__loader__.set_data", "_frozen_importlib_external", False),
            ("tools:send", "elsewhere", True),  # spelled out, and so meant
            ("tools:get_page", "tools", True),
            ("tools:get_page", "elsewhere", False),
        ],
    )
    def test_what_a_module_imported_is_no_function_of_it(self, name: str, module: str | None, good: bool) -> None:
        wrong = function_error(("shop.*", "tools:send", "tools:get_*"), name, module)
        assert (wrong is None) is good
        assert good or (wrong is not None and "python_allow names shop.*" in wrong)

    @pytest.mark.parametrize(
        ("allowed", "closed", "restricted"),
        [
            (Allowed(), False, set()),
            (Allowed(cwd=("/srv",)), False, set()),
            (Allowed(exec=("/opt/*",)), False, {"exec"}),
            (Allowed(python=("shop.*",)), False, {"python", "call"}),
            (Allowed(env=("APP_*",)), False, {"exec", "python", "call"}),
            (Allowed(), True, {"python", "call"}),  # a handler by name may start programs, too
        ],
    )
    def test_whose_variables_have_a_rule(self, allowed: Allowed, closed: bool, restricted: set[str]) -> None:
        for kind in ("exec", "shell", "python", "call", "http"):
            wrong = run_error(allowed, kind, "", "", ["TZ"], closed=closed)
            assert (wrong is not None) is (kind in restricted), kind
            assert kind not in restricted or closed or kind in allowed.kinds
        assert allowed_of(ALL, {"env_allow": ("APP_*",)}).env == ("APP_*",)

    @pytest.mark.parametrize(
        ("handlers", "allowed", "closed"),
        [
            (("http", "call"), Allowed(), True),
            (("exec", "http"), Allowed(), False),
            (("exec", "http", "call:send"), Allowed(exec=("/opt/*",)), True),
            (("exec", "python"), Allowed(exec=("/opt/*",)), False),
            (("exec", "python"), Allowed(exec=("/opt/*",), python=("shop.*",)), True),
            (("python",), Allowed(python=("shop.*",)), True),
            (("python", "exec"), Allowed(python=("shop.*",)), False),
            (("shell", "exec"), Allowed(exec=("/opt/*",)), False),  # said by a remote worker alone
            (("call",), None, True),
        ],
    )
    def test_a_node_is_closed_where_all_that_it_starts_was_chosen(
        self, handlers: tuple[str, ...], allowed: Allowed | None, closed: bool
    ) -> None:
        assert is_closed(allowed, handlers) is closed

    def test_a_shell_would_start_anything(self) -> None:
        with pytest.raises(ValueError, match="leave shell out"):
            allowed_of(ALL, {"exec_allow": ("/opt/*",)})


class TestPlacement:
    def offer(self, node: str, allowed: Allowed | None) -> Offer:
        kinds = frozenset() if allowed is None else allowed.kinds
        return Offer(node, 1, frozenset({"exec", "http", "shell"}), frozenset(), False, frozenset(), allowed, kinds)

    def policy(self, need: str, target: str, *conditions: Condition) -> Policy:
        trigger = Trigger(kind=TriggerKind.MANUAL)
        return Policy(trigger=trigger, required_capability=need, target=target, conditions=conditions)

    def test_a_node_takes_what_it_allows(self) -> None:
        offer = self.offer("n1", Allowed(exec=("/opt/*",)))
        assert offer.can(self.policy("exec", "/opt/a"), "default")
        assert not offer.can(self.policy("exec", "/bin/a"), "default")
        assert offer.can(self.policy("exec", ""), "default")  # made before it was written down: the node itself decides
        assert offer.can(self.policy("http", "example.org:443"), "default")
        assert not offer.can(self.policy("http", "127.0.0.1:80"), "default")
        assert self.offer("n1", None).can(self.policy("exec", "/bin/a"), "default")

    def test_where_programs_are_held_back_it_says_how_they_are_had(self) -> None:
        held = replace(self.offer("n1", None), handlers=frozenset({"http", "deliver", "call:send"}))
        for need in ("exec", "shell", "python"):
            assert lacking([held, held], self.policy(need, ""), "default") == (
                f'No node has the handler "{need}". Start a worker or a node that has it in its --executors.'
                f"{NOT_STARTED if need == 'python' else ''}"
                " One whose jobs would run as its own user leaves shell, exec and python out until --run-as"
                " default=USER names another, and says so in its log."
            )
        assert lacking([held], self.policy("call:other", ""), "default") == 'No node has the handler "call:other".'
        assert lacking([self.offer("n1", None)], self.policy("python", ""), "default") == (
            f'No node has the handler "python". Start a worker or a node that has it in its --executors.{NOT_STARTED}'
        )

    def test_handlers_by_name_take_no_variables_where_programs_are_restricted(self) -> None:
        session = Session(
            id=1, node="n1", boot_id="b", nonce=b"n", ttl_ms=1, opened_at_ms=0, slots=1, handlers=("exec", "call:send")
        )
        policy = msgspec.structs.replace(self.policy("call:send", ""), env=("LD_PRELOAD",))
        for allowed, good in ((Allowed(exec=("/opt/*",)), False), (Allowed(), True)):
            assert offer(msgspec.structs.replace(session, allowed=allowed), NodeRule()).can(policy, "default") is good

    def test_rules_that_could_not_be_announced_are_no_lie(self) -> None:
        policy = msgspec.structs.replace(self.policy("exec", "/opt/a"), env=("APP_DAY",))
        assert lacking([self.offer("n1", Allowed(exec=("/opt/*",)))], policy, "default") == (
            'n1 takes no variable "APP_DAY" from a job: it has no env_allow; say it there, or leave the variable out;'
            " where it is said, it was announced before the level of the cluster was 6: start it once more."
        )

    def test_variables_count(self) -> None:
        offer = self.offer("n1", Allowed(exec=("/opt/*",), python=("shop.*",), env=("APP_*",)))
        for need, target in (("exec", "/opt/a"), ("python", "shop.mail:send"), ("call:send", "")):
            able = replace(offer, handlers=frozenset({need}))
            plain = self.policy(need, target)
            assert able.can(plain, "default")
            assert able.can(msgspec.structs.replace(plain, env=("APP_DAY",)), "default")
            with_more = msgspec.structs.replace(plain, env=("APP_DAY", "VIMINIT"))
            assert not able.can(with_more, "default")
            assert lacking([able], with_more, "default") == (
                'n1 takes no variable "VIMINIT" from a job, whatever env_allow names: with it a program runs other'
                " code; leave it out."
            )
            other = msgspec.structs.replace(plain, env=("TZ",))
            assert lacking([able], other, "default") == (
                'n1 takes no variable "TZ" from a job: env_allow names APP_*; name it there, or leave it out.'
            )
            assert self.offer("n1", Allowed(cwd=("/srv",))).refusal(other) is None

    def test_variables_count_where_a_node_has_nothing_but_handlers_of_its_own(self) -> None:
        session = Session(
            id=1, node="n1", boot_id="b", nonce=b"n", ttl_ms=1, opened_at_ms=0, slots=1,
            handlers=("http", "call:send"), allowed=Allowed(),
        )  # fmt: skip
        policy = msgspec.structs.replace(self.policy("call:send", ""), env=("GNUMAKEFLAGS",))
        held = offer(session, NodeRule())
        assert not held.can(policy, "default")
        assert "GNUMAKEFLAGS" in lacking([held], policy, "default")
        assert held.can(self.policy("call:send", ""), "default")
        more = msgspec.structs.replace(session, handlers=("http", "call:send", "python"))
        assert offer(more, NodeRule()).can(policy, "default")

    def test_conditions_count(self) -> None:
        offer = self.offer("n1", Allowed(cwd=("/srv",)))
        assert not offer.can(self.policy("exec", "a", Condition(ConditionKind.PATH, "/etc/x")), "default")
        assert offer.can(self.policy("exec", "a", Condition(ConditionKind.PATH, "/srv/x")), "default")
        assert not offer.can(self.policy("exec", "a", Condition(ConditionKind.HTTP, "http://10.0.0.1/")), "default")

    def test_the_reason_is_said_of_each_node(self) -> None:
        offers = [self.offer("n1", Allowed(exec=("/opt/*",))), self.offer("n2", Allowed(exec=()))]
        assert lacking(offers, self.policy("exec", "/bin/a"), "default") == (
            'n1 does not start "/bin/a": exec_allow names /opt/*. n2 does not start "/bin/a": exec_allow names nothing.'
        )

"""Rules of a node: the programs, variables, directories, functions and network addresses that its jobs may use.

A node is told by its operator and announces it with its session, so that the leader gives it nothing that it would
refuse and can say why a run waits. The node itself checks again, before it starts anything: it alone sees what a name
resolves to.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from posixpath import normpath

import msgspec

from raftsched.core.rules.hosts import (
    ASCII,
    IPAddress,
    IPNetwork,
    Reading,
    literal,
    split_target,
    target_of_url,
    unwrapped,
)

# Words for networks. Sources: RFC 1918, RFC 6598 and RFC 4193 (private), RFC 1122 and RFC 4291 (loopback, link-local).
NETWORKS: dict[str, tuple[str, ...]] = {
    "any": ("0.0.0.0/0", "::/0"),
    "loopback": ("127.0.0.0/8", "::1/128"),
    "private": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"),
    "link-local": ("169.254.0.0/16", "fe80::/10"),
}
PROGRAMS = frozenset({"exec", "shell", "python"})  # handlers by which a job names itself what runs
PATH_MAX = 4_096  # Linux, limits.h: no program and no directory has a longer path
RULES_MAX = 100  # of one kind, of a remote worker
_SHOWN = 200  # characters of what a job names, and of the rules, in a sentence
_NAME_BITS = 129  # a rule about a name is more specific than one about any network

# Variables by which a program runs code that it is not made of, or takes other files for its own: jobs never set them,
# whatever an operator's pattern matches. Sources: ld.so(8), glibc's unsecvars.h, bash(1), zsh(1), python(1),
# perlrun(1), ruby(1), node(1), lua(1), java(1), dotnet(1), php(1), git(1), svn(1), make(1), tar(1), rsync(1), less(1),
# man(1), vim(1), awk(1), openssl-env(7), borg(1), restic(1), rclone(1), environ(7), XDG Base Directory Specification,
# psql(1), hg(1), bundle-config(1), gem(1), R's Startup, erl(1), and Ansible's and Electron's manuals. Not so TMPDIR of
# unsecvars.h, which is for programs with more rights than their caller: a job has its program's, and may need the room.
_NEVER = frozenset(
    {"PATH", "HOME", "SHELL", "IFS", "ENV", "PS4", "CDPATH", "SHELLOPTS", "BASHOPTS", "PROMPT_COMMAND", "FPATH"}
    | {"ZDOTDIR", "GCONV_PATH", "GETCONF_DIR", "GLIBC_TUNABLES", "LOCPATH", "NLSPATH", "RESOLV_HOST_CONF", "TZDIR"}
    | {"HOSTALIASES", "LOCALDOMAIN", "MALLOC_TRACE", "NIS_PATH", "RES_OPTIONS", "LESS", "PSQLRC", "HGRCPATH"}
    | {"ELECTRON_RUN_AS_NODE", "GEM_HOME", "GEM_PATH", "BUNDLE_GEMFILE", "R_PROFILE", "R_PROFILE_USER", "R_ENVIRON"}
    | {"R_ENVIRON_USER", "ERL_FLAGS", "ERL_AFLAGS", "ERL_ZFLAGS"}
    | {"RUBYOPT", "RUBYLIB", "PERLLIB", "PHPRC", "PHP_INI_SCAN_DIR", "CLASSPATH", "JAVA_HOME", "JAVA_TOOL_OPTIONS"}
    | {"JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "JAVA_OPTS", "MAVEN_OPTS", "GRADLE_OPTS", "DOTNET_STARTUP_HOOKS"}
    | {"MAKEFLAGS", "MFLAGS", "GNUMAKEFLAGS", "MAKEFILES", "MAKESHELL", "AWKPATH", "AWKLIBPATH", "TAR_OPTIONS"}
    | {"RSH", "EDITOR", "VISUAL", "PAGER", "MANPAGER", "BROWSER", "LESSOPEN", "LESSCLOSE", "VIMINIT", "EXINIT"}
    | {"VIM", "VIMRUNTIME", "OPENSSL_CONF", "OPENSSL_ENGINES", "OPENSSL_MODULES", "KUBECONFIG", "AWS_CONFIG_FILE"}
    | {"AWS_SHARED_CREDENTIALS_FILE", "SSH_ASKPASS", "SUDO_ASKPASS", "BORG_REMOTE_PATH"}
)
_NEVER_PREFIXES = (
    *("LD_", "DYLD_", "PYTHON", "PERL5", "BASH_", "GIT_", "LUA_", "NODE_", "NPM_CONFIG_", "npm_config_", "XDG_"),
    *("CORECLR_", "COR_", "DOTNET_ADDITIONAL_", "ANSIBLE_", "RAFTSCHED_"),  # the last are the product's own to set
)
# Their values are command lines, options of interpreters, or code to load. No _FLAGS: features are named so as well.
_NEVER_SUFFIXES = (
    *("_COMMAND", "_PASSCOMMAND", "_RSH", "_SSH", "_PAGER", "_EDITOR", "_WRAPPER", "_OPTS"),
    *("_MODULES", "_PLUGIN_PATH"),
)
_VARIABLE = re.compile(r"[A-Za-z_*?][A-Za-z0-9_*?]*", re.ASCII)
# Letters, digits, ._*? and all beyond ASCII. It is said by what is not in it: that compiles in a twentieth of the time.
_FUNCTION = re.compile(r"[^\x00-)+\-,/:->@\[-\^`{-\x7f]+(:[^\x00-)+\-,/:->@\[-\^`{-\x7f]+)?")
NO_ENV = ": it has no env_allow; say it there, or leave the variable out"
VARIABLES_MAX, VARIABLE_MAX = 100, 256  # of a job's variables, so many are held against rules before it is started


class Allowed(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The rules of a node. None: nothing is restricted; empty: nothing is allowed."""

    exec: tuple[str, ...] | None = None  # patterns of absolute paths of programs
    cwd: tuple[str, ...] | None = None  # directories: working directories and paths of conditions lie in one of them
    python: tuple[str, ...] | None = None  # patterns of "module:function", or of modules
    http: tuple[str, ...] = ()  # see `Destinations`
    http_deny: tuple[str, ...] = ()
    # Patterns of variables that jobs may set. None: none where it is not for jobs to say what runs, and else any
    env: tuple[str, ...] | None = None

    @property
    def kinds(self) -> frozenset[str]:
        """The handlers for which the rules look at what a job names."""
        found = {"http", "deliver"}
        if self.exec is not None or self.cwd is not None:
            found.add("exec")
        if self.python is not None or self.cwd is not None:
            found |= {"python", "call"}
        if self.env is not None:
            found |= {"exec", "python", "call"}
        if self.cwd is not None:
            found.add("shell")
        return frozenset(found)


def is_closed(allowed: Allowed | None, handlers: Collection[str]) -> bool:
    """Returns whether a node with these rules and handlers starts only what its operator chose: programs and functions
    that rules name, and handlers by name."""
    if "shell" in handlers:
        return False
    rules = allowed or Allowed()
    return ("exec" not in handlers or rules.exec is not None) and ("python" not in handlers or rules.python is not None)


def rules_error(allowed: Allowed, reading: Reading = ASCII) -> str | None:
    """Returns what is wrong with rules that a remote worker says it has, and what would be right; None: nothing is
    wrong."""
    lists = (allowed.exec, allowed.cwd, allowed.python, allowed.http, allowed.http_deny, allowed.env)
    if any(len(one) > RULES_MAX or any(len(item) > PATH_MAX for item in one) for one in lists if one is not None):
        return f"a worker has at most {RULES_MAX} rules of a kind, of {PATH_MAX} characters each."
    try:
        for item in (*allowed.http, *allowed.http_deny):
            Rule(item, reading)
    except ValueError as error:
        return f"{error}."
    return None


def allowed_of(executors: tuple[str, ...], lists: dict[str, tuple[str, ...]]) -> Allowed:
    """The rules that an operator wrote. `lists`: by setting ("exec_allow" ...), those that were said. Raises ValueError
    with the setting, what is wrong, and what would be right."""
    for name, what in (("exec_allow", "a program"), ("cwd_allow", "a directory")):
        for item in lists.get(name, ()):
            if not item.startswith("/") or normpath(item) != item or "\0" in item:
                raise ValueError(
                    f"{name} {item!r} must be the absolute path of {what}, such as /opt/jobs, without '..'"
                )
    for item in lists.get("python_allow", ()):
        if not _FUNCTION.fullmatch(item):
            raise ValueError(f"python_allow {item!r} must be a module or a function, such as shop.* or shop.mail:send")
    for item in lists.get("env_allow", ()):
        if not _VARIABLE.fullmatch(item):
            raise ValueError(f"env_allow {item!r} must be the name of a variable, or a pattern such as APP_*")
        if is_never(item):
            raise ValueError(
                f"env_allow {item!r} cannot be: with such a variable a program runs code that is not its own; name"
                " others"
            )
    if "exec_allow" in lists and "shell" in executors:
        raise ValueError(
            "exec_allow: a shell starts any program; leave shell out of the executors, as in --executors exec,http"
        )
    for name in ("http_allow", "http_deny"):
        for item in lists.get(name, ()):
            try:
                Rule(item)
            except ValueError as error:
                raise ValueError(f"{name} {error}") from None
    return Allowed(
        lists.get("exec_allow"),
        lists.get("cwd_allow"),
        lists.get("python_allow"),
        lists.get("http_allow", ()),
        lists.get("http_deny", ()),
        lists.get("env_allow"),
    )


def run_error(
    allowed: Allowed, kind: str, target: str, cwd: str, env: Iterable[str] = (), *, closed: bool = False
) -> str | None:
    """Why a node with these rules does not start it, as the end of a sentence that begins with the node; None: it does.
    `target`: the program of exec, "module:function" of python; empty: not known. `env`: the variables that the job
    sets. `closed`: see is_closed; then call jobs, too, set only the variables that rules name."""
    if kind == "exec" and allowed.exec is not None and target:
        if not target.startswith("/") or normpath(target) != target:
            return f'starts no "{target[:_SHOWN]}": where exec_allow is said, a program is named by its absolute path'
        if not any(fnmatchcase(target, pattern) for pattern in allowed.exec):
            return f'does not start "{target[:_SHOWN]}": exec_allow names {listed(allowed.exec)}'
    if kind == "python" and allowed.python is not None and target:
        module = target.partition(":")[0]
        if not any(fnmatchcase(target if ":" in pattern else module, pattern) for pattern in allowed.python):
            return f'does not call "{target[:_SHOWN]}": python_allow names {listed(allowed.python)}'
    if cwd and allowed.cwd is not None and not inside(cwd, allowed.cwd):
        return f'runs nothing in "{cwd[:_SHOWN]}": cwd_allow names {listed(allowed.cwd)}'
    restricted = allowed.env is not None or (
        allowed.exec is not None if kind == "exec" else closed or allowed.python is not None
    )
    return _env_error(allowed.env, env) if restricted and kind in ("exec", "python", "call") else None


def _env_error(patterns: tuple[str, ...] | None, env: Iterable[str]) -> str | None:
    for name in env:
        what = f'takes no variable "{name[:_SHOWN]}" from a job'
        if is_never(name):
            return f"{what}, whatever env_allow names: with it a program runs other code; leave it out"
        if patterns is None:
            return f"{what}{NO_ENV}"
        if not any(fnmatchcase(name, pattern) for pattern in patterns):
            return f"{what}: env_allow names {listed(patterns)}; name it there, or leave it out"
    return None


def is_never(name: str) -> bool:
    """Returns whether no job may set this variable where programs or functions are restricted."""
    return name in _NEVER or name.startswith(_NEVER_PREFIXES) or name.endswith(_NEVER_SUFFIXES)


def any_variable(allowed: Allowed) -> bool:
    """Returns whether a pattern of variables matches all of them."""
    return any(not set(pattern) - {"*"} for pattern in allowed.env or ())


def function_error(patterns: tuple[str, ...], name: str, module: str | None) -> str | None:
    """Does what `run_error` does, for what a python handler's name ("module:function") led to. `module`: the one that
    it is defined in; None: it says none. What a module imported is no function of it: `import os` in an allowed module
    would else allow "module:os.system". A function that a pattern spells out is meant, wherever it comes from."""
    function = name.partition(":")[2]
    for pattern in patterns:
        exact = pattern.partition(":")[2]
        if exact and not set("*?") & set(exact) and fnmatchcase(name, pattern):
            return None
        if module and fnmatchcase(f"{module}:{function}" if exact else module, pattern):
            return None
    where = f"defined in {module}" if module else "no function of a module"
    return f'does not call "{name[:_SHOWN]}": it is {where}, and python_allow names {listed(patterns)}'


def path_error(allowed: Allowed, pattern: str) -> str | None:
    """Does what `run_error` does, for the path of a condition."""
    if allowed.cwd is None or inside(pattern, allowed.cwd):
        return None
    return f'does not look at "{pattern[:_SHOWN]}": cwd_allow names {listed(allowed.cwd)}'


def directory_error(there: str, directories: tuple[str, ...]) -> str | None:
    """Does what `run_error` does, for the directory in which a run is, with all links followed on both sides."""
    return None if inside(there, directories) else f'runs nothing in "{there}": cwd_allow names {listed(directories)}'


def inside(path: str, directories: tuple[str, ...]) -> bool:
    """Returns whether an absolute path is one of these directories or lies below one. Links are not followed."""
    clean = normpath(path)
    return any(d in (clean, "/") or clean.startswith(f"{d}/") for d in directories)


def listed(items: tuple[str, ...], most: int = 5) -> str:
    """The first of them with commas, for a sentence; "nothing" where there are none."""
    more = len(items) - most
    text = ", ".join(items[:most])
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return text + (f" and {more} more" if more > 0 else "") if items else "nothing"


# ---------------------------------------------------------------- addresses


class Rule:
    """One item of http_allow or http_deny: a word of NETWORKS, an address, a network, or the pattern of a name; each
    with or without ":port"."""

    def __init__(self, text: str, reading: Reading = ASCII) -> None:
        """Raises ValueError with what would be right."""
        self.text = text
        self.port = 0
        self.networks: tuple[IPNetwork, ...] = ()
        self.pattern = ""
        host = text
        if text.startswith("[") or text.count(":") == 1:
            host, self.port = split_target(text)
            if not self.port or self.port > 65_535:
                raise ValueError(f"{text!r} has a bad port; write a number from 1 to 65535 behind the colon")
        if host in NETWORKS:
            self.networks = tuple(ipaddress.ip_network(n) for n in NETWORKS[host])
            return
        try:
            self.networks = (ipaddress.ip_network(host),)
        except ValueError:
            try:
                self.pattern = reading.pattern_of(host)
            except ValueError as error:
                wrong = str(error) or (
                    "is no rule; write a network such as 10.1.0.0/16, an address, a name such as *.corp.example, or "
                    f"{', '.join(NETWORKS)}, with or without :port"
                )
                raise ValueError(f"{text!r} {wrong}") from None

    def bits(self, host: str, port: int, address: IPAddress | None) -> int:
        """Returns how specific the rule is about this destination; negative: it says nothing about it."""
        if self.port and self.port != port:
            return -1
        extra = 1 if self.port else 0
        if self.pattern:
            return 2 * _NAME_BITS + extra if fnmatchcase(host, self.pattern) else -1
        if address is None:
            return -1
        # The length of a prefix is counted from the end of the address, for IPv4 and IPv6 alike.
        found = [
            n.prefixlen + (96 if n.version == 4 and n.prefixlen else 0)
            for n in self.networks
            if n.version == address.version and address in n
        ]
        return 2 * max(found) + extra if found else -1


class Destinations:
    """Rules for where requests may go. The most specific rule decides: a name before a network, a longer prefix before
    a shorter one, one with a port before one without; of two alike the one that denies. About what no rule speaks:
    addresses of the public internet are allowed, all others (loopback, private, link-local, multicast, reserved) are
    not."""

    def __init__(self, allow: tuple[str, ...], deny: tuple[str, ...], reading: Reading = ASCII) -> None:
        """Raises ValueError."""
        self._allow = [Rule(text, reading) for text in allow]
        self._deny = [Rule(text, reading) for text in deny]
        self._reading = reading
        self._allow_text = listed(allow)

    def refusal(self, host: str, port: int, address: IPAddress | None) -> str | None:
        """Why this address of this host is not asked, as the end of a sentence; None: it is. An `address` of None: not
        resolved yet, so that only names decide."""
        name = self._reading.name_of(host)
        plain = None if address is None else unwrapped(address)
        allow, deny = _most(self._allow, name, port, plain), _most(self._deny, name, port, plain)
        if deny is not None and (allow is None or deny[0] >= allow[0]):
            where = name if plain is None or str(plain) == name else f"{plain} ({name})"
            return f"asks nothing of {where}:{port}: http_deny names {deny[1].text}"
        if allow is not None or plain is None:
            return None
        if self._reading.is_public(plain):
            return None
        what = next((word for word in ("loopback", "link-local", "private") if _in(plain, word)), "no public")
        where = str(plain) if str(plain) == name else f"{plain} ({name})"
        return f"asks nothing of {where}: it is a {what} address, and http_allow names {self._allow_text}"


def _most(rules: list[Rule], host: str, port: int, address: IPAddress | None) -> tuple[int, Rule] | None:
    found = [(bits, rule) for rule in rules if (bits := rule.bits(host, port, address)) >= 0]
    return max(found, key=lambda pair: pair[0]) if found else None


def _in(address: IPAddress, word: str) -> bool:
    networks = (ipaddress.ip_network(n) for n in NETWORKS[word])
    return any(n.version == address.version and address in n for n in networks)


def permitted_addresses(
    rules: Destinations, host: str, port: int, resolved: Sequence[str | int]
) -> tuple[list[str], str | None]:
    """Those of the addresses of a host that may be asked, in order, each once; and, where there are none, why not.

    A host with addresses of both kinds is asked at those that are allowed."""
    addresses: list[str] = []
    refused: str | None = None
    for text in dict.fromkeys(str(item) for item in resolved):
        wrong = rules.refusal(host, port, ipaddress.ip_address(text.partition("%")[0]))
        if wrong is None:
            addresses.append(text)
        else:
            refused = refused or wrong
    return addresses, None if addresses else refused or f"finds no address of {host}"


@lru_cache(64)
def destinations(allow: tuple[str, ...], deny: tuple[str, ...], reading: Reading = ASCII) -> Destinations | None:
    """The rules as announced by a node; None when they cannot be read, so that the node itself has to decide."""
    try:
        return Destinations(allow, deny, reading)
    except ValueError:
        return None


@lru_cache(4_096)
def _judged(allow: tuple[str, ...], deny: tuple[str, ...], target: str, reading: Reading) -> str | None:
    rules = destinations(allow, deny, reading)
    if rules is None or not target:
        return None
    host, port = split_target(target)
    return rules.refusal(host, port, literal(host))


def wrong_in_target(allowed: Allowed, target: str, reading: Reading = ASCII) -> str | None:
    """Does what `run_error` does, for a request to "host:port"; names are not resolved here."""
    return _judged(allowed.http, allowed.http_deny, target, reading)


def wrong_in_url(allowed: Allowed, url: str, reading: Reading = ASCII) -> str | None:
    """Does what `wrong_in_target` does, for an address."""
    return wrong_in_target(allowed, target_of_url(url, reading), reading)

"""Chooses the part of the node's own environment that jobs see."""

from __future__ import annotations

from collections.abc import Collection, Mapping

# What jobs see of the node's own environment (the supervisor already gets nothing else).
BASE_ENVIRONMENT = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"),
        *("PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"),
        *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    )
)


def base_environment(environ: Mapping[str, str], passed: Collection[str] = ()) -> dict[str, str]:
    """Returns the part of the node's environment that jobs may see: BASE_ENVIRONMENT and the LC_ variables, but no
    address with a password in it (RFC 3986, section 3.2.1), and what the operator has `passed` by name."""
    seen = {k: v for k, v in environ.items() if k in BASE_ENVIRONMENT or k.startswith("LC_")}
    usual = {k: v for k, v in seen.items() if not (k.lower().endswith("_proxy") and "@" in v)}
    return {**usual, **{k: environ[k] for k in passed if k in environ}}

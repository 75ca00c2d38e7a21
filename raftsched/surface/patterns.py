"""Regular expressions of what requests hold, for OpenAPI (ECMA-262). They describe what the checks let through, and
check nothing themselves."""

from __future__ import annotations

_NUMBER = r"[0-9]{1,15}([.,][0-9]{1,9})?"
_ID = "[0-9a-hjkmnp-tv-z]"

_DURATION = rf"(({_NUMBER}(ms|[wdhms]))+|P({_NUMBER}W)?({_NUMBER}D)?(T({_NUMBER}H)?({_NUMBER}M)?({_NUMBER}S)?)?)"
DURATION = f"^{_DURATION}$"
SIZE = r"^\s*[0-9]{1,15}\s*([KMGTkmgt]?[iI]?[bB])?\s*$"
JOB_ID = f"^[0-9a-f]{_ID}{{12}}$"
INSTANCE_ID = f"^[0-9a-f]{_ID}{{12}}@(0|[1-9][0-9]{{0,15}})(-[0-9a-f]{{16}})?$"
SESSION_PREFIX = "rsw_"
SESSION = rf"[0-9]{{1,18}}-([0-9a-f]{{32}}|{SESSION_PREFIX}[A-Za-z0-9_-]{{43}})"
WORKER_SESSION = f"^{SESSION}$"
WORKER_SESSION_NUMBER = f"^([0-9]{{1,18}}|{SESSION})$"
CALLABLE = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$"
HEADER = "^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$"
OWN_HEADER = (
    "^([Cc][Oo][Nn][Nn][Ee][Cc][Tt][Ii][Oo][Nn]|[Cc][Oo][Nn][Tt][Ee][Nn][Tt]-[Ll][Ee][Nn][Gg][Tt][Hh]|[Hh][Oo][Ss][Tt]"
    "|[Tt][Rr][Aa][Nn][Ss][Ff][Ee][Rr]-[Ee][Nn][Cc][Oo][Dd][Ii][Nn][Gg]|[Rr][Aa][Ff][Tt][Ss][Cc][Hh][Ee][Dd]-.*)$"
)
WEBHOOK_HEADER = (
    "^([Ww][Ee][Bb][Hh][Oo][Oo][Kk]-.*|[Cc][Oo][Nn][Tt][Ee][Nn][Tt]-[Tt][Yy][Pp][Ee]"
    "|[Uu][Ss][Ee][Rr]-[Aa][Gg][Ee][Nn][Tt])$"
)
MAILBOX = r"^[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@[A-Za-z0-9.-]{1,189}$"
MAIL_HOST = r"^([A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])$"
KEY_TEMPLATE = r"^([^{}\x00-\x1f\x7f]|\{job\}|\{params(\.[^.{}\x00-\x1f\x7f]+)+\})+$"
COMMAND = "^[^\\x00]*[^\\s\\x00][^\\x00]*$"
NO_NUL = "^[^\\x00]*$"
_EXIT, _STATUS = "([01]?[0-9]{1,2}|2[0-4][0-9]|25[0-5])", "[1-5][0-9]{2}"
EXIT_CODES = f"^{_EXIT}(-{_EXIT})?$"
STATUSES = f"^{_STATUS}(-{_STATUS})?$"
OUTCOME_OF_EXIT = f"^(succeed|retry|fail|cancel|snooze {_DURATION})$"
OUTCOME_OF_STATUS = f"^(succeed|retry|fail|cancel|snooze( {_DURATION})?)$"

"""Commands about callers: tokens, logins, keys, certificates, the audit."""

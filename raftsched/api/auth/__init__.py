"""Callers: who they are, what they may do, how often, and the audit of it."""

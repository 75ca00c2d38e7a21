"""Reads jobs of APScheduler, as `python -m raftsched.apscheduler export` writes them: JSON, which holds no pickles.
`triggers` says what is due when, `cron` reads the fields of its cron triggers, `jobs` makes jobs of all of it."""

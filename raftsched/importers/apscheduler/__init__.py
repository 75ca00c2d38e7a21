"""Reads jobs of APScheduler, as `python -m raftsched.apscheduler export` writes them: JSON, which holds no pickles.
`due_times` says what is due when, `cron` reads the fields of its cron triggers, `job_states` makes jobs of it all."""

"""Files of other schedulers and calendars, read into jobs and days."""

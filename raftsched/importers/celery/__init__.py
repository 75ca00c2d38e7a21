"""Reads beat schedules of Celery. `literals` reads Python without running it, `schedules` what is due when, `django`
the tables of django-celery-beat; `beat` makes jobs of all of them."""

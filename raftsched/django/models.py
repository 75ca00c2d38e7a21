"""Stands for the cluster's jobs in the admin: it has no table, and one permission."""

from __future__ import annotations

from django.db import models


class Job(models.Model):
    """A job of the cluster. It has no table: who has the permission raftsched.view_job sees the list."""

    class Meta:
        app_label = "raftsched"
        managed = False
        default_permissions = ("view",)
        verbose_name = "job"
        verbose_name_plural = "jobs"

    def __str__(self) -> str:
        return "job"

from django.db import models


class Invoice(models.Model):
    number = models.IntegerField(unique=True)
    sent = models.IntegerField(default=0)

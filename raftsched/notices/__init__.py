"""Writes a notification: in sentences, as a mail, as a CloudEvent. It sends nothing."""

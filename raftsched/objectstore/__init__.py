"""Stores objects: files by key, in a local directory or in S3. A put is whole or has not happened.

All calls block: an event loop makes them in a thread. Several threads and processes may use a store at once.
Every failure is an ObjectStoreError, whose text is one line and holds no credentials.
"""

"""Opens a store by its place: a directory, or s3://BUCKET/PREFIX."""

from __future__ import annotations

from pathlib import Path

from raftsched.objectstore.directory import Directory
from raftsched.objectstore.s3 import S3, endpoint_of
from raftsched.objectstore.store import NotUsable, ObjectStore

_FORMS = "a directory, or s3://BUCKET/PREFIX"


def open_store(where: str, endpoint: str | None = None, *, makes: bool = True) -> ObjectStore:
    """Returns the store at a place; nothing is connected to or made yet. `endpoint`: of S3, when it is not that of the
    environment (RAFTSCHED_S3_ENDPOINT, AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL) and not AWS. `makes`: a directory that is
    not there is made when something is first put. Raises NotUsable."""
    scheme, colon, rest = where.partition("://")
    if not colon:
        if not where or "\0" in where or where.startswith("s3:"):  # for s3://; else it would be a directory
            raise NotUsable(f"a place to store at is {_FORMS}")
        return Directory(Path(where).absolute(), makes=makes)
    if scheme != "s3":
        raise NotUsable(f"{scheme[:20]}:// is no place to store at; it is {_FORMS}")
    bucket, _, prefix = rest.partition("/")
    if "@" in bucket or "?" in rest:  # not shown: it may be a password
        raise NotUsable("s3:// is followed by bucket and prefix alone; the environment has credentials and endpoint")
    return S3(bucket, prefix.strip("/"), endpoint_of(endpoint))

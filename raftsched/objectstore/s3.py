"""A store in a bucket of S3, or of a service that speaks S3, by the package minio."""

from __future__ import annotations

import configparser
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any, BinaryIO, cast
from urllib.parse import parse_qs, urlsplit

from raftsched.objectstore.store import PIECE, Found, NoSuchObject, NotUsable, ObjectStoreError, Source, require_key
from raftsched.system.watched_files import Made, WatchedFiles, digest_of

if TYPE_CHECKING:
    from minio import Minio
    from minio.credentials.providers import Provider

    from raftsched.objectstore.bounded import BoundedPool

MISSING = "S3 needs the package minio; pip install 'raftsched[s3]'"
AWS = "https://s3.amazonaws.com"
ENDPOINTS = ("RAFTSCHED_S3_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")  # in this order
_CONNECT_S = 10.0
_RETRIES = 3  # of a request, while the service cannot be reached or answers 5xx
_RESUMED = 5  # times that an object that is read breaks off without a byte more
_READ = 64 << 10  # bytes: less than that is lost where a response breaks off
_PART = 32 << 20  # bytes: 312 GiB are the largest object, of 10,000 parts; one is in memory
_PAGES = 10_000  # of one list, of up to 1,000 objects each
_EMPTY = 100  # of them one after the other: a service may pass over what was deleted
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_CREDENTIALS = (
    "no credentials for S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SHARED_CREDENTIALS_FILE"
    " (and AWS_PROFILE)"
)

log = logging.getLogger(__name__)


class S3:
    """One bucket, below a prefix."""

    def __init__(self, bucket: str, prefix: str, endpoint: str) -> None:
        """Connects to nothing yet. `endpoint`: http:// or https://, host and port. Raises NotUsable."""
        self.where = f"s3://{bucket}/{prefix}".rstrip("/")
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        if not _BUCKET.fullmatch(bucket):
            raise NotUsable(f"{bucket[:80]!r} cannot be the name of a bucket: small letters, digits, . and -")
        if prefix:
            try:
                require_key(prefix)
            except ObjectStoreError as error:
                raise NotUsable(f"the prefix: {error}") from None
        self._client, self._pool = _client(endpoint)

    def put(self, key: str, source: Source) -> int:
        require_key(key)
        whole = _InFull(source)
        with self._errors(key, "cannot be written"):
            self._client.put_object(
                self._bucket,
                self._prefix + key,
                cast(BinaryIO, whole),  # it reads, and nothing else
                -1,
                part_size=_PART,
                num_parallel_uploads=1,
            )
        return whole.size

    def get(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        require_key(key)
        if length == 0:
            return
        end = None if length is None else start + length
        tag, lost = "", 0  # the object that was begun with; how often nothing came
        while True:
            got = 0
            try:
                with self._errors(key, "cannot be read"), self._opened(key, start, end, tag) as response:
                    if start and response.status == 200:
                        raise ObjectStoreError(
                            f"{self.where}/{key} cannot be read: asked for a part of it, S3 gave all"
                        )
                    tag = response.headers.get("etag", tag)
                    for piece in response.stream(_READ):
                        left = len(piece) if end is None else end - start
                        got += len(piece)
                        start += len(piece)
                        yield piece[:left]
                        if start == end or len(piece) > left:
                            return  # it may give more than it was asked for
                return
            except _BrokenOff:
                lost = 0 if got >= _READ else lost + 1  # a byte at a time would be no end
                if lost == _RESUMED or not tag:
                    raise

    def list(self, prefix: str = "") -> Iterator[Found]:
        whole, pages = self._prefix + prefix, _Pages()
        with self._errors(prefix, "cannot be listed"):
            listed = iter(self._client.list_objects(self._bucket, prefix=whole, recursive=True))
            while (found := pages.next(listed)) is not None:
                if found.object_name and found.object_name.startswith(whole) and not found.is_dir:
                    put_at = found.last_modified
                    put_at_ms = 0 if put_at is None else int(put_at.timestamp() * 1000)
                    yield Found(found.object_name.removeprefix(self._prefix), found.size or 0, put_at_ms)

    def delete(self, key: str) -> None:
        require_key(key)
        with self._errors(key, "cannot be deleted"):
            self._client.remove_object(self._bucket, self._prefix + key)

    def close(self) -> None:
        self._pool.clear()

    @contextmanager
    def _opened(self, key: str, start: int, end: int | None, tag: str) -> Iterator[Any]:
        """Gives the response, whose body is not read yet; one without a body where nothing stands behind `start`."""
        from minio.error import S3Error

        condition: dict[str, str | list[str] | tuple[str]] | None = {"If-Match": tag} if tag else None
        try:
            response = self._client.get_object(
                self._bucket,
                self._prefix + key,
                offset=start,
                length=0 if end is None else end - start,
                request_headers=condition,
            )
        except S3Error as error:
            if error.code == "InvalidRange":
                yield _Nothing()
                return
            raise
        try:
            yield response
        finally:
            response.close()
            response.release_conn()

    @contextmanager
    def _errors(self, key: str, what: str) -> Iterator[None]:
        """Raises ObjectStoreError for what the library may raise."""
        # The error alone, which the library lets through: nothing is parsed here.
        from xml.etree.ElementTree import ParseError  # nosec B405

        from minio.error import InvalidResponseError, MinioException, S3Error
        from urllib3.exceptions import HTTPError, MaxRetryError

        from raftsched.objectstore.bounded import AnswerRefused
        from raftsched.objectstore.waiting import NobodyWaits

        place = f"{self.where}/{key}".rstrip("/")
        try:
            yield
        except S3Error as error:
            if error.code in {"NoSuchKey", "NoSuchObject"}:
                raise NoSuchObject(f"{place} is not there") from None
            why = f"{error.code}: {error.message}" if error.message else str(error.code)
            raise ObjectStoreError(f"{place} {what}: {_line(why)}") from None
        except InvalidResponseError as error:
            raise ObjectStoreError(f"{place} {what}: no answer of S3 ({_line(str(error))})") from None
        except MaxRetryError as error:
            raise ObjectStoreError(f"{place} {what}: {_line(str(error.reason))}") from None
        except HTTPError as error:
            raise _BrokenOff(f"{place} {what}: {_line(str(error))}") from None
        except (MinioException, OSError) as error:
            raise ObjectStoreError(f"{place} {what}: {_line(str(error))}") from None
        except AnswerRefused as error:
            raise ObjectStoreError(f"{place} {what}: S3 gave {error}; is the endpoint right?") from None
        except (_NoCredentials, NobodyWaits) as error:
            raise ObjectStoreError(str(error)) from None
        except (ParseError, ValueError) as error:  # a page to log in at, for example, with status 200
            raise ObjectStoreError(
                f"{place} {what}: no answer of S3 ({_line(str(error))}); is the endpoint right?"
            ) from None


class _BrokenOff(ObjectStoreError):
    """The connection ended, or was silent, within an answer."""


class _NoCredentials(Exception):
    pass


class _Pages:
    """The pages of one list, as they are asked for: what begins anew, or has nothing in it, would not end."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()  # digests of where pages begin
        self._empty = 0

    def next(self, listed: Iterator[Any]) -> Any:
        """Returns the next object, or None. Raises AnswerRefused, and what the library raises."""
        from raftsched.objectstore.bounded import told_of_requests

        with told_of_requests(self._asked):
            found = next(listed, None)
        self._empty = 0
        return found

    def _asked(self, address: str) -> None:
        from raftsched.objectstore.bounded import AnswerRefused

        query = parse_qs(urlsplit(address).query, keep_blank_values=True)
        if "list-type" not in query:  # in which region the bucket is
            return
        begins = sha256("".join(query.get("continuation-token", [])).encode()).digest()
        self._empty += 1
        if begins in self._seen:
            raise AnswerRefused("a list that begins again where it has been")
        if self._empty > _EMPTY:
            raise AnswerRefused(f"{_EMPTY} pages of a list with nothing in them")
        if len(self._seen) == _PAGES:
            raise AnswerRefused(f"a list of more than {_PAGES:,} pages")
        self._seen.add(begins)


class _Nothing:
    """The response to a request for what stands behind the end of an object."""

    status = 206

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}

    def stream(self, size: int) -> Iterator[bytes]:
        return iter(())


class _InFull:
    """A source that gives as many bytes as it is asked for until its end: the library appends what comes in pieces,
    each time to a copy of what it has."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.size = 0  # bytes that it gave

    def read(self, size: int) -> bytes:
        pieces, left = [], size
        while left and (piece := self._source.read(min(left, PIECE))):
            pieces.append(piece)
            left -= len(piece)
        self.size += size - left
        return b"".join(pieces)


def endpoint_of(said: str | None) -> str:
    """Returns where S3 is: as it was said, by the environment, or AWS."""
    found = [said, *(os.environ.get(name) for name in ENDPOINTS), AWS]
    return next(text for text in found if text)


def _client(endpoint: str) -> tuple[Minio, BoundedPool]:
    """Returns the library's client, and the connections that it uses. Raises NotUsable."""
    try:
        import urllib3
        from minio import Minio

        from raftsched.objectstore.bounded import SILENT_S, BoundedPool
    except ImportError:
        raise NotUsable(MISSING) from None
    parts = urlsplit(endpoint)
    if parts.username or parts.password:
        raise NotUsable("the endpoint of S3 must not hold credentials; the environment has them, see AWS_ACCESS_KEY_ID")
    if parts.scheme not in {"http", "https"} or not parts.netloc or parts.path.strip("/") or parts.query:
        raise NotUsable(f"the endpoint of S3 is http:// or https:// with host and port, not {endpoint[:200]!r}")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    trust = os.environ.get("AWS_CA_BUNDLE") or os.environ.get("SSL_CERT_FILE")
    try:
        pool = BoundedPool(
            maxsize=4,
            timeout=urllib3.Timeout(connect=_CONNECT_S, read=SILENT_S),
            retries=urllib3.Retry(
                total=_RETRIES,
                redirect=False,
                backoff_factor=0.3,
                status_forcelist=[500, 502, 503, 504],
                raise_on_status=False,
                respect_retry_after_header=False,  # it may say a year
            ),
            ca_certs=trust,
        )
        client = Minio(
            parts.netloc,
            secure=parts.scheme == "https",
            region=region,
            credentials=_credentials(endpoint),
            http_client=pool,
        )
    except (ValueError, OSError) as error:
        raise NotUsable(f"S3 at {endpoint[:200]} cannot be used: {_line(str(error))}") from None
    return client, pool


def _credentials(endpoint: str) -> Provider:
    """Returns what finds credentials at the usual places, when they are first needed."""
    import urllib3
    from minio.credentials import providers

    from raftsched.objectstore.bounded import AnswerRefused, BoundedPool

    shared = providers.AWSConfigProvider()

    def read() -> Made[Any]:
        found = shared.retrieve()
        return Made(found, digest_of(*(str(text).encode() for text in found.__dict__.values())))

    class Chain(providers.ChainedProvider):
        _watched: WatchedFiles[Made[Any]] | None = None

        def retrieve(self) -> Any:
            """Returns what the library does; from a file what is in it now, as it keeps what does not expire."""
            try:
                found = super().retrieve()
                if self._provider is not shared:
                    return found
                if self._watched is None:
                    self._watched = WatchedFiles(
                        [shared._filename], read, unusable=(ValueError, OSError, configparser.Error), warn=_keep
                    )
                elif self._watched.reload_if_changed():
                    log.info("S3: the credentials in %s are used from now on", shared._filename)
                return self._watched.value.value
            except (
                ValueError,
                OSError,
                KeyError,
                configparser.Error,
                urllib3.exceptions.HTTPError,
                AnswerRefused,
            ):
                raise _NoCredentials(_CREDENTIALS) from None

    found: list[Provider] = [
        providers.EnvAWSProvider(),
        providers.EnvMinioProvider(),
        shared,
    ]
    # Elsewhere nobody answers at the addresses of these services, and each request would wait for that.
    if "amazonaws.com" in endpoint or os.environ.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        quick = BoundedPool(
            timeout=urllib3.Timeout(connect=2.0, read=5.0),
            retries=urllib3.Retry(total=1, respect_retry_after_header=False),
        )
        found.append(providers.IamAwsProvider(http_client=quick))
    return Chain(found)


def _keep(error: Exception) -> None:
    log.warning("S3: %s; the credentials that were read before stay in use", _line(str(error)))


def _line(text: str) -> str:
    """Returns text of a service as one short printable line."""
    return "".join(c if c.isprintable() else " " for c in " ".join(text[:2_000].split()))[:300]

# Sourced by scripts/test: gets Debian's Redis for the tests with Celery. It is unpacked below .venv with the two libraries
# that it needs and not installed, so that no service is started. Without it those tests are skipped and say so.
REDIS_SECONDS=120
REDIS=.venv/redis

install_redis() {
  if command -v redis-server >/dev/null || [ -e "$REDIS/usr/bin/redis-server" ] || ! command -v apt-get dpkg-deb >/dev/null; then
    return 0
  fi
  echo "Getting redis for the tests with Celery (once) ..." >&2
  if ! timeout "$REDIS_SECONDS" bash -c '
    set -e
    into=$(mktemp -d)
    trap "rm -rf $into" EXIT
    chmod 755 "$into"
    cd "$into"
    packages="redis-server redis-tools libjemalloc2 liblzf1"
    apt-get -qq download $packages || { apt-get -qq update; apt-get -qq download $packages; }
    for package in *.deb; do
      dpkg-deb -x "$package" "$1.part"
    done
    rm -rf "$1"
    mv "$1.part" "$1"
  ' - "$PWD/$REDIS" </dev/null >/dev/null 2>&1; then
    echo "redis could not be had; the tests that need it will be skipped" >&2
  fi
}

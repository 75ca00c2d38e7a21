# Sourced by scripts/test: gets Debian's Prometheus for the tests of rules and dashboards. It is unpacked below .venv and not
# installed, so that no service is started and no user is made. Without it those tests are skipped and say so.
PROMETHEUS_SECONDS=120
PROMETHEUS=.venv/prometheus

install_prometheus() {
  if command -v promtool >/dev/null || [ -x "$PROMETHEUS/usr/bin/promtool" ] || ! command -v apt-get dpkg-deb >/dev/null; then
    return 0
  fi
  echo "Getting prometheus for the tests of rules and dashboards (once) ..." >&2
  if ! timeout "$PROMETHEUS_SECONDS" bash -c '
    set -e
    into=$(mktemp -d)
    trap "rm -rf $into" EXIT
    chmod 755 "$into"
    cd "$into"
    apt-get -qq download prometheus || { apt-get -qq update; apt-get -qq download prometheus; }
    dpkg-deb -x prometheus_*.deb "$1.part"
    rm -rf "$1"
    mv "$1.part" "$1"
  ' - "$PWD/$PROMETHEUS" </dev/null >/dev/null 2>&1; then
    echo "prometheus could not be had; the tests that need it will be skipped" >&2
  fi
}

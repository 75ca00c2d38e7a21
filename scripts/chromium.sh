# Sourced by scripts/test: gets Debian's Chromium for the browser tests. Only where there is none and where it can be had
# without a question: as root, with apt-get. Without it those tests are skipped and say so.
CHROMIUM_SECONDS=300

has_chromium() {
  command -v chromium || command -v chromium-browser || command -v google-chrome
} >/dev/null

install_chromium() {
  if has_chromium || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    return 0
  fi
  echo "Installing chromium for the browser tests (once) ..." >&2
  if ! timeout "$CHROMIUM_SECONDS" bash -c '
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update && apt-get -qq install -y --no-install-recommends chromium fonts-dejavu-core
  ' </dev/null >/dev/null 2>&1; then
    echo "chromium could not be installed; the browser tests will be skipped" >&2
  fi
}

# Sourced by scripts/test: gets Debian's Chromium for the browser tests, without what a window needs where that is a package
# of its own. Only where it can be had without a question: as root, with apt-get. Without any those tests are skipped and say so.
CHROMIUM_SECONDS=300

has_chromium() {
  command -v chromium || command -v chromium-browser || command -v google-chrome
} >/dev/null

# PACKAGE...: the first that can be installed.
install_first_of() {
  timeout "$CHROMIUM_SECONDS" bash -c '
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update
    for package; do
      apt-get -qq install -y --no-install-recommends "$package" fonts-dejavu-core && exit 0
    done
    exit 1
  ' install "$@" </dev/null >/dev/null 2>&1
}

install_chromium() {
  if command -v chromium-headless-shell >/dev/null || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    return 0
  fi
  if has_chromium; then
    install_first_of chromium-headless-shell || true
    return 0
  fi
  echo "Installing chromium for the browser tests (once) ..." >&2
  install_first_of chromium-headless-shell chromium ||
    echo "chromium could not be installed; the browser tests will be skipped" >&2
}

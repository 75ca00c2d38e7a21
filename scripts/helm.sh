# Sourced by scripts/test: gets Helm for the tests of the chart, where there is no `helm`: as the library helm-python-sdk, which
# is Helm's own code in a wheel (75 MB). It lies below .venv, and not in the environment. Without it those tests are skipped and
# say so.
HELM_SECONDS=180
HELM=.venv/helm
HELM_PACKAGE="helm-python-sdk==0.2.2 --hash=sha256:28cc13abaf134c3a7e37f070c939be8d9cdc9825c3c8b8b2d35161073bcd4578"

install_helm() {
  if command -v helm >/dev/null || [ -d "$HELM" ]; then
    return 0
  fi
  echo "Getting Helm for the tests of the chart (once) ..." >&2
  if ! timeout "$HELM_SECONDS" bash -c '
    set -e
    rm -rf "$2.part"
    .venv/bin/python -m pip -q install --disable-pip-version-check --only-binary :all: --no-deps --require-hashes \
      --target "$2.part" -r <(echo "$1")
    rm "$2.part"/helm_python/lib/*.so.?* # copies of one file
    mv "$2.part" "$2"
  ' - "$HELM_PACKAGE" "$HELM" </dev/null >/dev/null 2>&1; then
    echo "Helm could not be had; the tests that need it will be skipped" >&2
  fi
}

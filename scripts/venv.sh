# Sourced by the other scripts: makes .venv with everything that requirements.lock names, once per change of it.
# Needs Python 3.11 or newer with the venv module, and nothing else.
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
unset PYTHONDONTWRITEBYTECODE # nodes are started some hundred times: each would compile all of its modules

find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11 python; do
    [ -n "$candidate" ] || continue
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  echo "raftsched needs Python 3.11 or newer; none was found. Install one, or name it: PYTHON=/path/to/python $0" >&2
  return 1
}

make_venv() {
  local python stamp
  python=$(find_python) || exit 1
  stamp=$( { cat requirements.lock pyproject.toml; "$python" -V; } | cksum)
  if [ -x .venv/bin/python ] && [ "$(cat .venv/.stamp 2>/dev/null)" = "$stamp" ]; then
    return
  fi
  echo "Setting up .venv with $("$python" -V) (once; it takes a minute) ..." >&2
  if ! { [ -x .venv/bin/python ] && .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }; then
    "$python" -m venv --clear .venv || {
      echo "The venv module did not work; on Debian and Ubuntu: apt-get install python3-venv" >&2
      exit 1
    }
  fi
  # The lock names all that is needed, so nothing has to be resolved; what is never imported is never compiled.
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --require-hashes \
    -r requirements.lock &&
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable . || exit 1
  echo "$stamp" >.venv/.stamp
}

make_native() { # pip builds them once; what was changed since is built again
  local source
  for source in raftsched/worker/native/*.c; do
    [ -n "$(find raftsched/worker/native -name "$(basename "$source" .c)*" -newer "$source")" ] && continue
    .venv/bin/python hatch_build.py >/dev/null # without a compiler it says so, and all works without them
    return
  done
}

make_venv
make_native

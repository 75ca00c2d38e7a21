"""Pages that are pasted from top to bottom, as a reader does: one terminal for what goes on for ever, one for the rest.

They run in a network of their own, for the pages name ports.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.examples import ROOT, SHELL
from tests.support.patience import patient, wait_until

# blocks that belong into a terminal of their own -> what is printed there once it can be used
FOREVER = {
    "./scripts/dev": "billing/nightly-report FAILED",  # the last thing that the sample jobs need
    "raftsched dev": "billing/nightly-report FAILED",
    "python app.py": "ready",
    "uvicorn app:app": "startup complete",
    "python manage.py raftsched node": "data /",
}
NOT_HERE = ("pip install",)  # done before the test
_BLOCK = re.compile(r"(?:^`([^`\n]+)`:\n\n)?^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@contextmanager
def network() -> Iterator[list[str]]:
    """Gives the beginning of commands that run in a network of their own. Skips where that is not allowed."""
    if not all(map(shutil.which, ("unshare", "nsenter", "ip"))):
        pytest.skip("unshare, nsenter and ip are needed, for the page names ports")
    holder = subprocess.Popen(
        ["unshare", "-n", "--", "sh", "-c", "ip link set lo up && echo up && exec cat"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with holder:
        assert holder.stdout is not None
        if holder.stdout.readline() != b"up\n":
            pytest.skip("a network of its own is not allowed here, and the page names ports")
        yield ["nsenter", f"--net=/proc/{holder.pid}/ns/net", "--"]
        assert holder.stdin is not None
        holder.stdin.close()


class Desk:
    """A directory, and the terminals in it."""

    def __init__(self, directory: Path, inside: list[str], more: Mapping[str, str] = {}) -> None:
        """`inside`: how commands begin that run in the network; `more`: of the environment."""
        self.directory = directory
        self._inside = inside
        self._log = directory.parent / f"{directory.name}.log"
        self._going: list[subprocess.Popen[bytes]] = []
        home = directory.parent / f"{directory.name}.home"
        home.mkdir()
        kept = ("PATH", "LANG", "PYTHONPYCACHEPREFIX", "SSL_CERT_FILE")
        self._environment = {
            **{name: os.environ[name] for name in kept if name in os.environ},
            "HOME": str(home), "LC_ALL": "C.UTF-8", "NO_COLOR": "1", **more,
        }  # fmt: skip

    def put_commands(self, scripts: Mapping[str, str]) -> None:
        """Puts small programs where commands are looked for first."""
        binaries = self.directory.parent / f"{self.directory.name}.bin"
        binaries.mkdir(exist_ok=True)
        for name, script in scripts.items():
            (binaries / name).write_text(f"#!/bin/sh\n{script}\n")
            (binaries / name).chmod(0o755)
        self._environment["PATH"] = f"{binaries}:{self._environment['PATH']}"

    def paste(self, page: str) -> str:
        """Writes the files of a page and runs its blocks in their order, and gives what was printed. Fails at the first
        command that ends with another exit code than 0. Files that the page shows are written when it shows them."""
        printed, script = "", ""
        for file, language, text in _BLOCK.findall(page):
            if file:
                if script.strip():
                    printed += self._run(script)
                    script = _settings(script)
                (self.directory / file).parent.mkdir(parents=True, exist_ok=True)
                (self.directory / file).write_text(text)
            elif language in SHELL:
                line = text.strip()
                if (ready := FOREVER.get(line.partition("  #")[0].rstrip())) is not None:
                    printed += self._run(script)
                    script = _settings(script)
                    self._start(line, ready)
                else:
                    # One shell for all, so that what is set stays set.
                    script += "".join(f"{one}\n" for one in text.splitlines() if not one.startswith(NOT_HERE))
        return printed + self._run(script)

    def _run(self, script: str) -> str:
        printed = self.directory.parent / f"{self.directory.name}.printed"
        with printed.open("w") as file:
            process = subprocess.Popen(
                [*self._inside, "bash", "-euo", "pipefail", "-x", "-c", script],
                cwd=self.directory, env=self._environment, stdin=subprocess.DEVNULL, stdout=file,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            try:
                code: int | None = process.wait(patient(60))
            except subprocess.TimeoutExpired:
                code = None
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # and what it left running
                process.wait()
        log = self._log.read_text()[-4000:] if self._log.exists() else ""
        ended = "it has not ended" if code is None else f"exit {code}"
        assert code == 0, f"{ended}:\n{printed.read_text()}\nthe other terminal:\n{log}"
        return printed.read_text()

    def _start(self, command: str, ready: str) -> None:
        with self._log.open("wb") as log:
            process = subprocess.Popen(
                [*self._inside, "bash", "-c", f"exec {command}"],
                cwd=self.directory, env={**self._environment, "PYTHONUNBUFFERED": "1"}, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log,
            )  # fmt: skip
        self._going.append(process)

        def shown() -> bool:
            assert process.poll() is None, f"{command} has ended:\n{self._log.read_text()}"
            return ready in self._log.read_text()

        wait_until(shown, lambda: f"{command} to print {ready!r}:\n{self._log.read_text()}")

    def close(self) -> None:
        """Ctrl-C in the other terminal."""
        for process in self._going:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)
            process.wait(patient(60))


def _settings(script: str) -> str:
    """Returns the lines that another shell needs again."""
    return "".join(f"{line}\n" for line in script.splitlines() if line.startswith(("source ", "export ", "cd ")))


@contextmanager
def desk(directory: Path, more: Mapping[str, str] = {}) -> Iterator[Desk]:
    """A desk in an empty directory, and in a network of its own."""
    directory.mkdir(parents=True, exist_ok=True)
    with network() as inside:
        found = Desk(directory, inside, more)
        try:
            yield found
        finally:
            found.close()


def raftsched_commands() -> dict[str, str]:
    """The programs that an installation of raftsched, and of what the pages use, brings along."""
    python = f"PYTHONPATH={ROOT}:$PWD exec {sys.executable}"
    modules = {"raftsched": "raftsched", "uvicorn": "uvicorn", "django-admin": "django"}
    return {"python": f'{python} "$@"', **{name: f'{python} -m {module} "$@"' for name, module in modules.items()}}

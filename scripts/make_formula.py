"""Makes the Homebrew formula of raftsched.

It names the packages that an installation brings along; their versions and hashes are read from requirements.lock,
which the sdist has, when the formula is installed. The one in deploy/homebrew has no release to name: URL, checksum
and project are those of nobody until a release fills them.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.utils import canonicalize_name

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.bill_of_materials import locked, needed

ROOT = Path(__file__).resolve().parents[1]
FORMULA = ROOT / "deploy" / "homebrew" / "raftsched.rb"
EXTRAS = ("uvloop",)
NOT_FILLED = {"url": "RELEASE_URL", "sha256": "RELEASE_SHA256", "project": "PROJECT_URL"}

_TEXT = """\
# raftsched by Homebrew, on Linux. Made by ./scripts/make-formula; docs/installing.md has how it is used.
class Raftsched < Formula
  include Language::Python::Virtualenv

  # What an installation brings along. requirements.lock in the sdist has the versions, with the hashes of their files.
  PACKAGES = %w[
{packages}
  ].freeze

  desc "Job scheduler that is its own cluster"
  homepage "{project}"
  url "{url}"
  sha256 "{sha256}"
  license "Apache-2.0"

  depends_on :linux
  depends_on "python@3.13"

  def install
    pinned = (buildpath/"requirements.lock").read.split(/^(?=[a-z0-9])/)
    wanted = pinned.select {{ |one| PACKAGES.include?(one[/\\A[a-z0-9._-]+/]) }}
    odie "requirements.lock lacks packages" if wanted.length != PACKAGES.length
    (buildpath/"installed.lock").write wanted.join

    virtualenv_create(libexec, "python3.13")
    pip = ["python3.13", "-m", "pip", "--python=#{{libexec}}/bin/python", "install", "--no-deps"]
    system(*pip, "--require-hashes", "-r", "installed.lock")
    system(*pip, buildpath)
    bin.install_symlink libexec/"bin/raftsched"
    man1.install_symlink Dir[libexec/"share/man/man1/*"]
  end

  service do
    run [opt_bin/"raftsched", "dev", "--data", var/"raftsched"]
    keep_alive true
  end

  test do
    assert_match version.to_s, shell_output("#{{bin}}/raftsched --version")
    system bin/"raftsched", "keys", "new", "--file", testpath/"cluster.key"
    assert_path_exists testpath/"cluster.key"
  end
end
"""


def packages() -> list[str]:
    """Returns the names of what an installation brings along, as requirements.lock writes them. Raises NotLocked."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = locked((ROOT / "requirements.lock").read_text())
    installed = {canonicalize_name(found.metadata["Name"]): found for found in metadata.distributions()}
    of_package = {name: list(installed[name].requires or ()) for name in pinned if name in installed}
    asked = [*project["dependencies"], *(text for name in EXTRAS for text in project["optional-dependencies"][name])]
    return sorted(pinned[name].name for name in {name for _, name in needed(asked, of_package)})


def formula(url: str, sha256: str, project: str) -> str:
    """Returns the text of the formula."""
    listed = "\n".join(f"    {name}" for name in packages())
    return _TEXT.format(packages=listed, url=url, sha256=sha256, project=project)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description="Writes the Homebrew formula.")
    parser.add_argument("--url", help="where the sdist of the release is downloaded")
    parser.add_argument("--sdist", type=Path, help="its file, for the checksum")
    parser.add_argument("--project", help="the project's page")
    parser.add_argument("--out", type=Path, default=FORMULA, help="[deploy/homebrew/raftsched.rb]")
    asked = parser.parse_args(arguments)
    given = (asked.url, asked.sdist, asked.project)
    if any(given) and not all(given):
        parser.error("a release has all three: --url, --sdist, --project")
    values = dict(NOT_FILLED)
    if asked.sdist:
        digest = hashlib.sha256(asked.sdist.read_bytes()).hexdigest()
        values = {"url": asked.url, "sha256": digest, "project": asked.project}
    asked.out.write_text(formula(**values))


if __name__ == "__main__":
    main(sys.argv[1:])

# raftsched by Homebrew, on Linux. Made by ./scripts/make-formula; docs/installing.md has how it is used.
class Raftsched < Formula
  include Language::Python::Virtualenv

  # What an installation brings along. requirements.lock in the sdist has the versions, with the hashes of their files.
  PACKAGES = %w[
    ahocorasick-rs
    aiohappyeyeballs
    aiohttp
    aiosignal
    attrs
    brotli
    cffi
    click
    croniter
    cryptography
    frozenlist
    h11
    idna
    lmdb
    msgspec
    multidict
    orjson
    prometheus-client
    propcache
    pycparser
    pysyncobj
    python-dateutil
    pyyaml
    typing-extensions
    tzdata
    uvloop
    yarl
  ].freeze

  desc "Job scheduler that is its own cluster"
  homepage "PROJECT_URL"
  url "RELEASE_URL"
  sha256 "RELEASE_SHA256"
  license "Apache-2.0"

  depends_on :linux
  depends_on "python@3.13"

  def install
    pinned = (buildpath/"requirements.lock").read.split(/^(?=[a-z0-9])/)
    wanted = pinned.select { |one| PACKAGES.include?(one[/\A[a-z0-9._-]+/]) }
    odie "requirements.lock lacks packages" if wanted.length != PACKAGES.length
    (buildpath/"installed.lock").write wanted.join

    virtualenv_create(libexec, "python3.13")
    pip = ["python3.13", "-m", "pip", "--python=#{libexec}/bin/python", "install", "--no-deps"]
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
    assert_match version.to_s, shell_output("#{bin}/raftsched --version")
    system bin/"raftsched", "keys", "new", "--file", testpath/"cluster.key"
    assert_path_exists testpath/"cluster.key"
  end
end

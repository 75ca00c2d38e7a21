"""What the machine says of itself, of files as Linux has them; what it does not say is no error."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

from raftsched.system import machine
from raftsched.system.machine import Memory
from tests.support.zone_files import write_zone

MEMINFO = "MemTotal:       16000 kB\nMemFree:         500 kB\nMemAvailable:    8000 kB\nHugePages_Total:       0\n"


def write(directory: Path, **files: str) -> None:
    for name, text in files.items():
        file = directory / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def test_the_memory_of_the_machine(tmp_path: Path) -> None:
    assert machine.memory(tmp_path, tmp_path) is None
    write(tmp_path, meminfo=MEMINFO)
    assert machine.memory(tmp_path, tmp_path) == Memory(16_000 << 10, 8_000 << 10, 0)
    write(tmp_path, self__status="Name:\tnode\nVmSwap:\t     64 kB\nThreads:\t4\n")
    assert machine.memory(tmp_path, tmp_path) == Memory(16_000 << 10, 8_000 << 10, 64 << 10)


def test_the_memory_of_a_control_group_that_has_less(tmp_path: Path) -> None:
    groups = tmp_path / "groups"
    write(tmp_path, meminfo=MEMINFO, self__cgroup="0::/a.service/node\n")
    assert machine.own_group(tmp_path) == "/a.service/node"
    group = groups / "a.service" / "node"
    group.mkdir(parents=True)
    for most, found in (("max", (16_000, 8_000)), (f"{1 << 30}", (16_000, 8_000)), (f"{1_000 << 10}", (1_000, 300))):
        (group / "memory.max").write_text(most + "\n")
        (group / "memory.current").write_text(f"{900 << 10}\n")
        (group / "memory.stat").write_text(f"anon 1\ninactive_file {200 << 10}\n")
        seen = machine.memory(tmp_path, groups)
        assert seen is not None
        assert (seen.total >> 10, seen.available >> 10) == found
    write(tmp_path, self__cgroup="4:cpu:/old\n")
    assert machine.own_group(tmp_path) == "/"


def test_what_something_waited_for(tmp_path: Path) -> None:
    assert machine.stalled(tmp_path) is None
    some = "some avg10=0.00 avg60=12.50 avg300=1.00 total=5\n"
    write(tmp_path, pressure__memory=some + some.replace("some", "full").replace("12.50", "9.00"))
    assert machine.stalled(tmp_path) == 0.125


def test_the_clock_is_kept_or_not_or_nobody_says() -> None:
    assert machine.clock_synchronised() in (True, False, None)


def test_the_version_of_the_time_zone_data(tmp_path: Path) -> None:
    import tzdata  # type: ignore[import-untyped, unused-ignore]

    def version(*places: Path) -> str:
        return machine.read_zones(tuple(map(str, places))).version

    assert version(tmp_path) == version() == tzdata.IANA_VERSION, "there is no other"
    write_zone(tmp_path, "UTC", "UTC0")
    assert version(tmp_path) == "unknown"
    (tmp_path / "tzdata.zi").write_text("# version 2031c\nR d 1916 o\n")
    assert version(tmp_path) == version(tmp_path / "none", tmp_path) == "2031c"
    for odd in (b"", b"2031c" + b"x" * 60, b"2031c\xff", "2031\u00e9".encode(), b"2031c\tx"):
        (tmp_path / "tzdata.zi").write_bytes(b"# version " + odd + b"\n")
        assert version(tmp_path) == "unknown", "it goes into the log, whose names have bounds"


def test_the_digest_of_the_time_zone_data_is_of_what_it_holds(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    for place, rule in ((first, "<Z>-1"), (second, "<Z>-1"), (third, "<Z>-2")):
        write_zone(place, "Test/Zed", rule)
        write_zone(place, "UTC", "UTC0")
    write_zone(second, "posix/Test/Zed", "<Z>-3")
    write_zone(second, "localtime", "<Z>-3")
    (second / "zone.tab").write_text("no zone\n")
    os.utime(second / "UTC", (0, 0))
    found = [machine.read_zones((str(place),)) for place in (first, second, third)]
    assert found[0] == found[1], "neither dates count, nor what is no zone of the world"
    assert found[0].digest != found[2].digest
    assert {"Test/Zed", "Europe/Madrid"} < set(found[0].names), "the package has those that the system does not"
    assert "localtime" not in found[1].names
    assert found[0].name == f"unknown {found[0].digest}"
    both = machine.read_zones((str(third), str(first)))
    assert both.digest == found[2].digest, "the first that has a zone counts"


def test_a_damaged_file_is_no_zone(tmp_path: Path) -> None:
    write_zone(tmp_path, "UTC", "UTC0")
    file = tmp_path / "UTC"
    whole = file.read_bytes()
    for size in range(5, len(whole)):
        file.write_bytes(whole[:size])
        assert "UTC" not in machine.read_zones((str(tmp_path),)).names, size
    file.write_bytes(whole)
    assert "UTC" in machine.read_zones((str(tmp_path),)).names


def test_files_that_are_replaced_later_change_no_zone(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib, zoneinfo, datetime, gc\n"
        "from raftsched.system import machine\n"
        "from raftsched.schedule.zones import zone\n"
        "found = machine.zone_files()\n"
        "for file in pathlib.Path(sys.argv[1]).glob('Test/*'):\n"
        "    file.write_bytes(file.read_bytes().replace(b'<Z>0', b'<Z>9'))\n"
        "gc.collect()\n"
        "print({name: zone(name).stretch(0).offset for name in found.names if name.startswith('Test')})\n"
    )
    names = [f"Test/Z{number}" for number in range(20)]  # more than Python keeps for itself
    for name in names:
        write_zone(tmp_path, name, "<Z>0")
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        env={**os.environ, "PYTHONTZPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ast.literal_eval(run.stdout) == dict.fromkeys(sorted(names), 0)


def test_the_file_system_is_that_of_the_longest_mount_point(tmp_path: Path) -> None:
    write(
        tmp_path,
        self__mounts="/dev/a / ext4 rw 0 0\ntmpfs /dev tmpfs rw 0 0\n"
        "/dev/b /var/lib/a\\040b xfs rw 0 0\n/dev/c /var ext3 rw 0 0\n",
    )
    for path, kind in {
        "/": "ext4",
        "/dev/x": "tmpfs",
        "/devices": "ext4",
        "/var/lib/a b/c": "xfs",
        "/var": "ext3",
    }.items():
        assert machine.file_system(Path(path), tmp_path) == kind, path
    assert machine.file_system(Path("/"), tmp_path / "none") == "unknown"

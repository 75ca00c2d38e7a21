"""A follower far behind is brought up to date by a snapshot, and something happens in the middle of it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from raftsched.raft import codec
from tests.support.raft_net import OPTIONS, Net, Violation

FEW = replace(OPTIONS, keep_entries=3, memory_max_entries=4, snapshot_chunk_bytes=500, snapshot_window_bytes=2_000)
PHASES = ["copying", "sending", "receiving", "preparing", "swapping"]


@contextmanager
def far_behind(directory: Path) -> Iterator[tuple[Net, str]]:
    """A cluster of three that leads, and has a state of many chunks, and the third member, stopped."""
    seed = random.SystemRandom().getrandbits(32)
    try:
        net = Net(directory, seed, options=FEW)
        assert net.run(10.0, lambda: net.leader() is not None)
        lead = net.leader()
        assert lead is not None
        behind = next(name for name in net.names if name != lead.name)
        net.kill(behind)
        for _ in range(150):
            net.propose(lead.name, timeout=30.0)
            net.run(0.02)
        assert net.run(10.0, lambda: len(net.acknowledged) == net.asked)
        yield net, behind
    except Exception as error:
        pytest.fail(f"seed {seed}: {error!r}")


def catch_up(net: Net) -> None:
    if not net.run(30.0, lambda: len({s.applied_index for s in net.stores.values()}) == 1):
        raise Violation(f"applied {[s.applied_index for s in net.stores.values()]} after half a minute")
    net.check_all()


@pytest.mark.parametrize("phase", PHASES)
def test_a_node_killed_while(tmp_path: Path, phase: str) -> None:
    with far_behind(tmp_path) as (net, behind):
        killed: list[str] = []

        def kill(name: str) -> None:
            killed.append(name)
            net.kill(name)
            net.at(0.5, net.start, name)

        net.start(behind)
        net.hunt(phase, kill, 10.0)
        assert net.run(10.0, lambda: bool(killed))
        assert (killed == [behind]) is (phase in {"receiving", "preparing", "swapping"})
        catch_up(net)


def test_a_node_killed_as_often_as_it_starts(tmp_path: Path) -> None:
    """Also while its start is on its way to the disk: what a kill makes undone was met by nobody."""
    with far_behind(tmp_path) as (net, behind):
        for turn in range(200):
            net.start(behind)
            net.run((5 + turn % 20) / 1000)
            net.kill(behind)
            net.run(0.02)
        net.start(behind)
        catch_up(net)


@pytest.mark.parametrize("phase", PHASES)
def test_a_connection_reset_while(tmp_path: Path, phase: str) -> None:
    with far_behind(tmp_path) as (net, behind):
        lead = net.leader()
        assert lead is not None
        hit: list[str] = []

        def reset(name: str) -> None:
            hit.append(name)
            net.disconnect(lead.name, behind)

        net.start(behind)
        net.hunt(phase, reset, 10.0)
        assert net.run(10.0, lambda: bool(hit))
        catch_up(net)


def test_resets_do_not_send_it_back_to_the_start(tmp_path: Path) -> None:
    with far_behind(tmp_path) as (net, behind):
        lead = net.leader()
        assert lead is not None
        offered: dict[bytes, int] = {}
        sent = resets = 0

        def watch(a: str, b: str, frame: codec.Frame) -> None:
            nonlocal sent, resets
            if isinstance(frame, codec.SnapshotOffer):
                offered[frame.sha256] = frame.size
            elif isinstance(frame, codec.SnapshotChunk):
                sent += len(frame.data)
                if sent > (resets + 1) * 9 * FEW.snapshot_chunk_bytes:
                    resets += 1
                    net.at(0.0, net.disconnect, a, b)

        net.on_send = watch
        net.start(behind)
        catch_up(net)
        (size,) = offered.values()
        assert resets >= 3, "the state is too small for this test"
        assert sent < size + (resets + 1) * (FEW.snapshot_window_bytes + FEW.snapshot_chunk_bytes)


def test_a_new_leader_sends_its_own(tmp_path: Path) -> None:
    with far_behind(tmp_path) as (net, behind):
        first = net.leader()
        assert first is not None
        gone: list[str] = []

        def stop(name: str) -> None:
            gone.append(name)
            first.replica.step_down()

        net.start(behind)
        net.hunt("receiving", stop, 10.0)
        assert net.run(10.0, lambda: bool(gone))
        catch_up(net)
        assert first.snapshot_phase in {"idle", "sending", "keeping"}
        if first is not net.leader():
            assert first.snapshot_phase == "idle"
            assert list((tmp_path / first.name).glob("send-*")) == []

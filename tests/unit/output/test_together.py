"""Outputs that are kept together: what befalls one costs the others nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from raftsched.core.model import OutputRef
from raftsched.output.format.spool import STDOUT, pack
from raftsched.output.keeping.store import OutputStore, Record
from raftsched.output.keeping.together import Appender, Kept
from raftsched.system import background


async def test_each_is_told_though_one_cannot_take_it(tmp_path: Path) -> None:
    store = OutputStore(tmp_path)
    told: dict[int, Kept] = {}
    with ThreadPoolExecutor(1) as threads:
        appender = Appender("output", store, threads)
        appender.add(Record(1, 0, pack(STDOUT, b"one")), lambda kept: print(1 // 0))
        for token in (2, 3):
            appender.add(Record(token, 0, pack(STDOUT, b"more")), lambda kept, token=token: told.update({token: kept}))  # type: ignore[misc]
        await appender.drain()
    assert list(told) == [2, 3]
    for token, ref in told.items():
        assert isinstance(ref, OutputRef)
        assert store.open(ref, None, token).read(0) == b"more"
    assert background.failures["output"] == 1
    background.forget()
    store.close()

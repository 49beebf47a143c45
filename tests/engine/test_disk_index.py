"""The index's order and bytes, against a model that sorts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stoker.engine.disk_index import DiskIndex, Entry

names = st.integers(0, 9).map(lambda number: bytes([number]))
entries = st.builds(Entry, size=st.integers(0, 9), used=st.integers(0, 9))


@given(st.lists(st.tuples(names, st.none() | entries), max_size=300))
def test_the_least_recent_block_is_the_one_with_the_smallest_use(steps: list[tuple[bytes, Entry | None]]) -> None:
    index, model = DiskIndex(), dict[bytes, Entry]()
    for block, entry in steps:
        if entry is None:
            index.remove(block)
            model.pop(block, None)
        else:
            index.put(block, entry)
            model[block] = entry
        assert len(index) == len(model)
        assert index.nbytes == sum(each.size for each in model.values())
        assert all(index.get(each) == model.get(each) for each in (block, b"other"))
        oldest = index.least_recent()
        assert (oldest is None) == (not model)
        if oldest is not None:
            assert model[oldest[0]] == oldest[1]
            assert oldest[1].used == min(each.used for each in model.values())


@given(st.dictionaries(names, entries), st.dictionaries(names, entries, min_size=1))
def test_a_reset_leaves_nothing_of_before(before: dict[bytes, Entry], after: dict[bytes, Entry]) -> None:
    index = DiskIndex()
    index.reset(before)
    index.reset(after)
    assert {block: index.get(block) for block in after} == after
    assert (len(index), index.nbytes) == (len(after), sum(entry.size for entry in after.values()))
    oldest = index.least_recent()
    assert oldest is not None
    assert oldest[1].used == min(entry.used for entry in after.values())

"""A block's file is read back exactly, by us and by safetensors itself, and any damage shows."""

from __future__ import annotations

import errno
import resource
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import deserialize, safe_open

from stoker.engine import block_files
from stoker.engine.block_files import BlockName, RawArray
from stoker.engine.errors import BlockDamaged

NAME = BlockName("0.32.2", b"b" * 16, b"p" * 16)
ARRAYS = {
    "0.keys": RawArray("BF16", (1, 2, 3), bytes(range(12))),
    "0.values": RawArray("F32", (3,), memoryview(bytes(range(12)))),
    "1.scales": RawArray("U32", (0, 4), b""),
}


def written(folder: Path) -> Path:
    path = folder / "ab" / "block.safetensors"
    block_files.write(path, block_files.encode(NAME, ARRAYS), used_ns=123_000)
    return path


def test_a_block_comes_back_as_it_was(tmp_path: Path) -> None:
    assert block_files.read(written(tmp_path), NAME.version, NAME.block) == ARRAYS


def test_the_safetensors_package_reads_what_is_written_here(tmp_path: Path) -> None:
    path = written(tmp_path)
    tensors = deserialize(path.read_bytes())  # type: ignore[no-untyped-call]  # the package's stub has no types here
    read = {name: (tensor["dtype"], tuple(tensor["shape"]), tensor["data"]) for name, tensor in tensors}
    assert read == {name: (array.dtype, array.shape, bytes(array.data)) for name, array in ARRAYS.items()}
    with safe_open(path, framework="numpy") as file:
        said = file.metadata()
    assert said.pop("crc32")
    assert said == {"version": NAME.version, "hash": NAME.block.hex(), "parent": NAME.parent.hex()}


def test_data_begins_at_a_multiple_of_eight_bytes(tmp_path: Path) -> None:
    assert int.from_bytes(written(tmp_path).read_bytes()[:8], "little") % 8 == 0


def test_the_file_carries_its_last_use_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = written(tmp_path)
    assert path.stat().st_mtime_ns == 123_000
    assert list(path.parent.iterdir()) == [path]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_any_changed_bit_is_noticed(tmp_path: Path, data: st.DataObject) -> None:
    path = written(tmp_path)
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    with pytest.raises(BlockDamaged):
        block_files.read(path, NAME.version, NAME.block)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_a_file_that_was_cut_short_is_noticed(tmp_path: Path, data: st.DataObject) -> None:
    path = written(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(BlockDamaged):
        block_files.read(path, NAME.version, NAME.block)


def test_a_file_that_is_another_block_or_version_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    with pytest.raises(BlockDamaged, match="holds block 6262"):
        block_files.read(path, NAME.version, b"c" * 16)
    with pytest.raises(BlockDamaged, match=r"version 0\.32\.2"):
        block_files.read(path, "0.32.3", NAME.block)


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """The kernel itself refuses: no file of this process may grow past the limit."""
    path = tmp_path / "ab" / "block.safetensors"
    large = {"keys": RawArray("U8", (1 << 20,), bytes(1 << 20))}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    try:
        with pytest.raises(OSError) as raised:
            block_files.write(path, block_files.encode(NAME, large), used_ns=0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert raised.value.errno == errno.EFBIG
    assert list(path.parent.iterdir()) == []

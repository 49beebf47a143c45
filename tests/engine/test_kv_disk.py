"""The tier on disk with real files: what is put comes back, the cap holds, and no trouble of a disk is an error."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.engine.block_files import RawArray
from stoker.engine.disk_writer import RETRY_FIRST_S, RETRY_MAX_S
from stoker.engine.kv_disk import DiskTier
from tests.engine import write_blocks_for_ever

ROOT = b"r" * 16
BLOCK_BYTES = 10_000
CAP = 1 << 20
DEADLINE_S = 30.0


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@contextlib.contextmanager
def opened(folder: Path, cap: int = CAP, version: str = "1", clock: Clock | None = None) -> Iterator[DiskTier]:
    """A tier that is clean when the block begins and sound when it ends."""
    tier = DiskTier(folder, cap, version, clock=clock or Clock())
    try:
        assert tier.flush(DEADLINE_S)
        yield tier
        assert tier.flush(DEADLINE_S)
        tier.check_integrity()
    finally:
        tier.close()


def block(number: int) -> bytes:
    return number.to_bytes(16)


def arrays(number: int = 0, nbytes: int = BLOCK_BYTES) -> dict[str, RawArray]:
    return {"keys": RawArray("U8", (nbytes,), bytes([number % 256]) * nbytes)}


def put_chain(tier: DiskTier, numbers: range) -> list[bytes]:
    """Blocks that follow each other, on disk when this returns."""
    chain = [block(number) for number in numbers]
    for parent, number in zip([ROOT, *chain], numbers, strict=False):
        assert tier.put(block(number), parent, arrays(number))
    assert tier.flush(DEADLINE_S)
    return chain


def on_disk(tier: DiskTier, chain: list[bytes]) -> list[bool]:
    return [tier.contains(each) for each in chain]


def file_of(folder: Path, number: int) -> Path:
    (path,) = folder.rglob(f"{block(number).hex()}.safetensors")
    return path


@contextlib.contextmanager
def files_bounded_to(nbytes: int) -> Iterator[None]:
    """The kernel refuses this process larger files, as a full disk would."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if sys.platform != "linux" or os.geteuid() or shutil.which("mount") is None:
        pytest.skip("only root on Linux can mount a small file system")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder], check=False).returncode:
        pytest.skip("mounting is not allowed here")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_what_is_put_can_be_read_now_and_by_the_next_process(tmp_path: Path) -> None:
    with opened(tmp_path) as tier:
        assert tier.put(block(1), ROOT, arrays(1))
        assert tier.read(block(1)) == arrays(1)
        assert tier.flush(DEADLINE_S)
        assert tier.read(block(1)) == arrays(1)
        assert tier.read(block(2)) is None
    with opened(tmp_path) as tier:
        assert tier.contains(block(1))
        assert tier.read(block(1)) == arrays(1)
        assert (tier.snapshot().written, tier.snapshot().blocks) == (0, 1)


def test_a_block_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    with opened(tmp_path) as tier:
        put_chain(tier, range(1))
        put_chain(tier, range(1))
        assert tier.snapshot().written == 1


def test_only_the_owner_may_look_into_the_folder(tmp_path: Path) -> None:
    with opened(tmp_path):
        (version,) = tmp_path.iterdir()
        assert version.stat().st_mode & 0o777 == 0o700


def test_the_queue_is_bounded_and_says_no(tmp_path: Path) -> None:
    tier = DiskTier(tmp_path, CAP, "1", queue_bytes=BLOCK_BYTES)
    assert not tier.put(block(1), ROOT, arrays(nbytes=BLOCK_BYTES + 1))
    assert tier.snapshot().refused == 1
    assert tier.put(block(2), ROOT, arrays())
    assert tier.flush(DEADLINE_S)
    tier.close()


def test_a_block_larger_than_the_cap_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path, cap=BLOCK_BYTES) as tier:
        assert not tier.put(block(1), ROOT, arrays(nbytes=BLOCK_BYTES + 1))
        # Its header is what makes this one too large.
        assert tier.put(block(2), ROOT, arrays())
        assert tier.flush(DEADLINE_S)
        assert not tier.contains(block(2))
        assert tier.snapshot().refused == 2


def test_a_closed_tier_takes_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as tier:
        tier.close()
        assert not tier.put(block(1), ROOT, arrays())


def test_a_damaged_block_is_a_miss_once_and_can_be_put_again(tmp_path: Path) -> None:
    with opened(tmp_path) as tier:
        put_chain(tier, range(2))
        path = file_of(tmp_path, 1)
        path.write_bytes(path.read_bytes()[:-1] + b"!")
        assert tier.read(block(1)) is None
        assert not path.exists()
        assert not tier.contains(block(1))
        assert tier.snapshot().damaged == 1
        put_chain(tier, range(2))
        assert tier.read(block(1)) == arrays(1)


def test_a_block_that_somebody_removed_is_a_miss(tmp_path: Path) -> None:
    with opened(tmp_path) as tier:
        put_chain(tier, range(1))
        file_of(tmp_path, 0).unlink()
        assert tier.read(block(0)) is None
        assert (tier.snapshot().damaged, tier.snapshot().nbytes) == (1, 0)


def test_the_cap_holds_over_all_files_at_every_moment(tmp_path: Path) -> None:
    cap = 5 * BLOCK_BYTES
    with opened(tmp_path, cap) as tier:
        for number in range(20):
            put_chain(tier, range(number, number + 1))
            assert sum(path.stat().st_size for path in tmp_path.rglob("*.*")) <= cap
        assert tier.snapshot().evicted == 20 - tier.snapshot().blocks


def test_the_least_recently_used_chain_goes_first_and_each_chain_from_its_end(tmp_path: Path) -> None:
    with opened(tmp_path, cap=5 * BLOCK_BYTES) as tier:
        old, young = put_chain(tier, range(2)), put_chain(tier, range(10, 12))
        tier.touch(old)
        put_chain(tier, range(20, 21))
        assert on_disk(tier, [*old, *young]) == [True, True, True, False]
        put_chain(tier, range(30, 31))
        assert on_disk(tier, [*old, *young]) == [True, True, False, False]
        put_chain(tier, range(40, 41))
        assert on_disk(tier, old) == [True, False]


def test_the_order_of_use_outlives_the_process(tmp_path: Path) -> None:
    with opened(tmp_path) as tier:
        old, young = put_chain(tier, range(2)), put_chain(tier, range(10, 12))
        tier.touch(old)
    with opened(tmp_path, cap=3 * BLOCK_BYTES) as tier:
        assert on_disk(tier, [*old, *young]) == [True, True, False, False]


def test_a_block_from_the_future_is_not_immortal(tmp_path: Path) -> None:
    with opened(tmp_path) as tier:
        put_chain(tier, range(1))
        future = 2**62
        os.utime(file_of(tmp_path, 0), ns=(future, future))
    with opened(tmp_path, cap=2 * BLOCK_BYTES) as tier:
        put_chain(tier, range(1, 2))
        assert on_disk(tier, [block(0), block(1)]) == [False, True]


def test_a_chain_that_is_larger_than_the_cap_keeps_its_beginning(tmp_path: Path) -> None:
    with opened(tmp_path, cap=4 * BLOCK_BYTES) as tier:
        chain = put_chain(tier, range(10))
        assert on_disk(tier, chain) == [True] * 3 + [False] * 7
        assert (tier.snapshot().refused, tier.snapshot().evicted) == (7, 0)


def test_blocks_are_kept_though_the_clock_was_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path, cap=2 * BLOCK_BYTES) as tier:
        put_chain(tier, range(1))
        monkeypatch.setattr(time, "time_ns", lambda: 0)
        put_chain(tier, range(10, 11))
        assert on_disk(tier, [block(0), block(10)]) == [False, True]


def test_a_lowered_cap_is_kept_from_the_start(tmp_path: Path) -> None:
    with opened(tmp_path) as tier:
        put_chain(tier, range(10))
    with opened(tmp_path, cap=4 * BLOCK_BYTES) as tier:
        assert (tier.snapshot().blocks, tier.snapshot().evicted) == (3, 7)


def test_blocks_of_another_version_are_removed_and_counted(tmp_path: Path) -> None:
    with opened(tmp_path, version="0.32.2") as tier:
        assert not tier.found_stale
        put_chain(tier, range(3))
        nbytes = tier.snapshot().nbytes
    with opened(tmp_path, version="0.32.3") as tier:
        assert tier.found_stale
        assert not tier.contains(block(0))
        assert tier.snapshot().stale_bytes == nbytes
        assert len(list(tmp_path.iterdir())) == 1
    with opened(tmp_path, version="0.32.3") as tier:
        assert not tier.found_stale


def test_files_that_are_not_ours_stay(tmp_path: Path) -> None:
    with opened(tmp_path, version="old") as tier:
        put_chain(tier, range(1))
        (version,) = tmp_path.iterdir()
    others = [tmp_path / "notes.txt", version / "notes.txt", tmp_path / "photos" / "ab" / "block.safetensors"]
    for other in others:
        other.parent.mkdir(parents=True, exist_ok=True)
        other.write_text("mine")
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / ("a" * 32)).symlink_to(outside)
    with opened(tmp_path, version="new"):
        assert all(other.read_text() == "mine" for other in others)
        assert outside.exists()


def test_a_disk_that_refuses_writes_turns_writing_off_until_it_takes_them_again(tmp_path: Path) -> None:
    clock = Clock()
    with opened(tmp_path, clock=clock) as tier:
        put_chain(tier, range(2))
        with files_bounded_to(BLOCK_BYTES // 2):
            assert tier.put(block(2), ROOT, arrays())
            assert tier.flush(DEADLINE_S)
            off = tier.snapshot().off
            assert off is not None
            assert "File too large" in off.why
            assert tier.read(block(0)) == arrays(0), "reading goes on"
            assert not tier.put(block(3), ROOT, arrays()), "nothing is tried for a while"
            clock.now += RETRY_FIRST_S
            assert tier.put(block(3), ROOT, arrays()), "one more try"
            assert tier.flush(DEADLINE_S)
            assert tier.snapshot().off is not None
        clock.now += 2 * RETRY_FIRST_S
        put_chain(tier, range(4, 5))
        assert tier.snapshot().off is None
        assert on_disk(tier, [block(number) for number in range(5)]) == [True, True, False, False, True]
        assert (tier.snapshot().written, tier.snapshot().refused) == (3, 3)


def test_the_pause_between_tries_doubles_up_to_a_bound(tmp_path: Path) -> None:
    clock = Clock()
    pauses = []
    with opened(tmp_path, clock=clock) as tier, files_bounded_to(BLOCK_BYTES // 2):
        for number in range(10):
            assert tier.put(block(number), ROOT, arrays())
            assert tier.flush(DEADLINE_S)
            off = tier.snapshot().off
            assert off is not None
            assert off.since == 0.0
            pauses.append(off.retry_at - clock.now)
            clock.now = off.retry_at
    assert pauses[:3] == [RETRY_FIRST_S, 2 * RETRY_FIRST_S, 4 * RETRY_FIRST_S]
    assert pauses[-1] == RETRY_MAX_S


def test_a_folder_that_cannot_be_made_is_tried_again(tmp_path: Path) -> None:
    clock = Clock()
    folder = tmp_path / "kv"
    folder.write_text("in the way")
    tier = DiskTier(folder, CAP, "1", clock=clock)
    assert tier.flush(DEADLINE_S)
    assert tier.snapshot().off is not None
    assert tier.read(block(0)) is None
    folder.unlink()
    clock.now += RETRY_FIRST_S
    put_chain(tier, range(1))
    assert tier.snapshot().off is None
    tier.check_integrity()
    tier.close()


def test_a_full_file_system_is_survived(tiny_disk: Path) -> None:
    clock = Clock()
    with opened(tiny_disk, clock=clock) as tier:
        filler = tiny_disk / "filler"
        filler.write_bytes(bytes(200 * 1024))
        number = 0
        while tier.snapshot().off is None:
            tier.put(block(number), ROOT, arrays(number))
            assert tier.flush(DEADLINE_S)
            number += 1
        off = tier.snapshot().off
        assert off is not None
        assert "No space left" in off.why
        assert tier.read(block(0)) == arrays(0)
        filler.unlink()
        clock.now = off.retry_at
        put_chain(tier, range(100, 105))
        assert tier.snapshot().off is None


def test_a_file_system_that_becomes_read_only_is_survived(tiny_disk: Path) -> None:
    clock = Clock()
    with opened(tiny_disk, clock=clock) as tier:
        chain = put_chain(tier, range(2))
        damaged = file_of(tiny_disk, 1)
        damaged.write_bytes(b"damaged")
        subprocess.run(["mount", "-o", "remount,ro", tiny_disk], check=True)
        tier.touch(chain)
        assert tier.flush(DEADLINE_S)
        off = tier.snapshot().off
        assert off is not None
        assert "Read-only" in off.why
        assert tier.read(block(0)) == arrays(0)
        assert tier.read(block(1)) is None
        subprocess.run(["mount", "-o", "remount,rw", tiny_disk], check=True)
        clock.now = off.retry_at
        put_chain(tier, range(2, 3))
        assert tier.read(block(1)) is None
        assert not damaged.exists()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_any_mixture_of_uses_keeps_the_cap_and_the_contents(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    chance = random.Random(seed)
    folder = tmp_path_factory.mktemp("kv")
    for _ in range(3):
        with opened(folder, cap=chance.randrange(1, 8) * BLOCK_BYTES) as tier:
            for _ in range(30):
                number = chance.randrange(12)
                match chance.randrange(3):
                    case 0:
                        tier.put(block(number), block(number - 1) if number else ROOT, arrays(number))
                    case 1:
                        assert tier.read(block(number)) in (None, arrays(number))
                    case 2:
                        tier.touch([block(each) for each in range(number)])
            assert tier.flush(DEADLINE_S)
            assert tier.snapshot().damaged == 0


def test_a_killed_process_leaves_only_whole_blocks(tmp_path: Path) -> None:
    chance = random.Random(5)
    for _ in range(6):
        command = [sys.executable, write_blocks_for_ever.__file__, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for _ in range(chance.randrange(1, 30)):
                assert writer.stdout.readline()
            writer.kill()
        with opened(tmp_path, cap=20 << 20) as tier:
            held = [bytes.fromhex(path.stem) for path in tmp_path.rglob("*.safetensors")]
            assert all(tier.read(each) is not None for each in held)
            assert len(held) == tier.snapshot().blocks
            assert tier.snapshot().damaged == 0
            assert list(tmp_path.rglob("*.tmp")) == []

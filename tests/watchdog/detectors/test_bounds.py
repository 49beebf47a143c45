"""The detectors that are a bound or two: what they fire on, what they leave alone, and when they are well again."""

from __future__ import annotations

import pytest

from stoker.watchdog.detectors.canary import CanaryDetector
from stoker.watchdog.detectors.crashes import CrashesDetector
from stoker.watchdog.detectors.descriptors import DescriptorsDetector
from stoker.watchdog.detectors.disk import DiskDetector
from stoker.watchdog.detectors.errors import ErrorsDetector, lower_bound
from stoker.watchdog.detectors.fragmentation import FragmentationDetector
from stoker.watchdog.detectors.pressure import PressureDetector
from stoker.watchdog.detectors.resources import ResourcesDetector
from stoker.watchdog.detectors.stall import StallDetector
from stoker.watchdog.detectors.swap import SwapDetector
from stoker.watchdog.detectors.thermal import ThermalDetector
from stoker.watchdog.samples import Check, EngineReading, HostReading, ServiceReading
from stoker.watchdog.verdicts import Cause, Level, Number
from tests.watchdog.detectors.feeding import GB, MB, MINUTE_S, fed, sample

BUSY = EngineReading(epoch=1, running=2)


def held(active: float, limit: float) -> EngineReading:
    return EngineReading(epoch=1, active_bytes=int(active), limit_bytes=int(limit))


def test_memory_near_the_limit_is_our_own_pressure() -> None:
    detector = PressureDetector()
    verdict = fed(detector, MINUTE_S, lambda at: sample(at, held(95 * GB, 100 * GB)))
    assert (verdict.level, verdict.cause) == (Level.FIRING, Cause.OURS)
    verdict = fed(detector, 2 * MINUTE_S, lambda at: sample(at, held(50 * GB, 100 * GB)), start=100)
    assert verdict.level is Level.OK


def test_memory_that_others_take_is_not_ours() -> None:
    engine = EngineReading(epoch=1, footprint_bytes=2 * GB)
    host = HostReading(memory_bytes=32 * GB, available_bytes=GB)
    verdict = fed(PressureDetector(), MINUTE_S, lambda at: sample(at, engine, host))
    assert (verdict.level, verdict.cause) == (Level.FIRING, Cause.OTHERS)


def test_memory_at_the_edge_does_not_flicker() -> None:
    detector = PressureDetector()
    fed(detector, MINUTE_S, lambda at: sample(at, held(93 * GB, 100 * GB)))
    verdict = fed(detector, 30 * MINUTE_S, lambda at: sample(at, held((90 + at % 3) * GB, 100 * GB)), start=70)
    assert verdict.level is Level.FIRING


def test_a_pool_that_working_requests_do_not_draw_upon_is_fragmentation() -> None:
    engine = EngineReading(epoch=1, running=2, cache_bytes=9 * GB, active_bytes=12 * GB, weights_bytes=9 * GB)
    verdict = fed(FragmentationDetector(), 16 * MINUTE_S, lambda at: sample(at, engine))
    assert (verdict.level, verdict.cause) == (Level.FIRING, Cause.POOL)
    assert verdict.numbers[Number.FRAGMENTATION_RATIO] == 3.0


def test_a_pool_left_by_a_busy_hour_is_none() -> None:
    engine = EngineReading(epoch=1, running=0, cache_bytes=9 * GB, active_bytes=12 * GB, weights_bytes=9 * GB)
    assert fed(FragmentationDetector(), 3600, lambda at: sample(at, engine)).level is Level.OK


def test_holes_in_the_prefix_cache_are_fragmentation() -> None:
    engine = EngineReading(epoch=1, prefix_cache_bytes=8 * GB, prefix_cache_live_bytes=3 * GB)
    verdict = fed(FragmentationDetector(), 16 * MINUTE_S, lambda at: sample(at, engine))
    assert (verdict.level, verdict.cause) == (Level.FIRING, Cause.PREFIX_CACHE)


@pytest.mark.parametrize(("share", "cause"), [(0.95, Cause.OTHERS), (0.1, Cause.OURS), (None, None)])
def test_swap_that_grows_is_found_and_told_whose_it_is(share: float | None, cause: Cause | None) -> None:
    def growing(at: float) -> HostReading:
        used = GB + at * MB
        return HostReading(
            swap_used_bytes=int(used), swap_others_bytes=None if share is None else int(GB * 0.5 + at * MB * share)
        )

    verdict = fed(SwapDetector(), 5 * MINUTE_S, lambda at: sample(at, host=growing(at)))
    assert (verdict.level, verdict.cause) == (Level.FIRING, cause)


def test_idle_pages_put_away_at_once_are_no_swap_growth() -> None:
    def burst(at: float) -> HostReading:
        return HostReading(swap_used_bytes=GB if at < 300 else 3 * GB)

    verdicts = [SwapDetector().update(sample(at, host=burst(at))).level for at in range(0, 900, 10)]
    assert Level.FIRING not in verdicts


@pytest.mark.parametrize("host", [HostReading(thermal_level=2), HostReading(thermal_level=4)])
def test_a_heavy_thermal_level_fires(host: HostReading) -> None:
    assert fed(ThermalDetector(), 3 * MINUTE_S, lambda at: sample(at, host=host)).level is Level.FIRING


def test_throttle_counters_that_count_fire() -> None:
    verdict = fed(ThermalDetector(), 5 * MINUTE_S, lambda at: sample(at, host=HostReading(throttles_total=int(at))))
    assert verdict.level is Level.FIRING


def test_a_busy_clock_below_its_usual_fires_and_an_idle_one_does_not() -> None:
    detector = ThermalDetector()
    fed(detector, 600, lambda at: sample(at, BUSY, HostReading(clock_ratio=0.8)))
    idle = EngineReading(epoch=1, running=0)
    assert fed(detector, 600, lambda at: sample(at, idle, HostReading(clock_ratio=0.2)), 610).level is Level.OK
    assert fed(detector, 600, lambda at: sample(at, BUSY, HostReading(clock_ratio=0.5)), 1220).level is Level.FIRING


def test_a_low_clock_that_was_always_so_is_usual() -> None:
    verdict = fed(ThermalDetector(), 7200, lambda at: sample(at, BUSY, HostReading(clock_ratio=0.4)))
    assert verdict.level is Level.OK


def test_no_step_with_work_pending_is_a_stall() -> None:
    engine = EngineReading(epoch=1, running=1, steps_total=7)
    assert fed(StallDetector(), 70, lambda at: sample(at, engine)).level is Level.FIRING
    idle = EngineReading(epoch=1, running=0, waiting=0, steps_total=7)
    assert fed(StallDetector(), 3600, lambda at: sample(at, idle)).level is Level.OK


def test_a_machine_that_slept_has_not_stalled() -> None:
    detector = StallDetector()
    engine = EngineReading(epoch=1, running=1, steps_total=7)
    for at in (0.0, 1.0, 2.0):
        detector.update(sample(at, engine))
    assert detector.update(sample(30_000.0, engine)).level is Level.OK


def test_a_slow_step_has_the_time_that_its_pace_promises() -> None:
    engine = EngineReading(epoch=1, running=1, steps_total=7, step_bound_s=100.0)
    assert fed(StallDetector(), 500, lambda at: sample(at, engine)).level is Level.SUSPECT


def test_errors_are_judged_by_what_is_sure_about_their_share() -> None:
    def service(at: float, errors: int) -> ServiceReading:
        return ServiceReading(requests_total=int(at), errors_total=errors)

    failing = fed(ErrorsDetector(), 300, lambda at: sample(at, service=service(at, int(at / 4))))
    assert failing.level is Level.FIRING
    assert fed(ErrorsDetector(), 300, lambda at: sample(at, service=service(at, int(at > 100)))).level is Level.OK


def test_the_bound_of_a_share_lies_below_it() -> None:
    assert lower_bound(0, 0) == 0
    assert 0 < lower_bound(3, 4) < 0.75
    assert lower_bound(50, 100) < lower_bound(500, 1000)


def test_three_deaths_in_ten_minutes_are_a_crash_loop() -> None:
    assert fed(CrashesDetector(), 600, lambda at: sample(at, deaths=int(at / 200))).level is Level.FIRING
    assert fed(CrashesDetector(), 36_000, lambda at: sample(at, deaths=int(at / 30_000))).level is Level.OK


def test_a_count_near_its_limit_fires_and_tells_when_it_is_reached() -> None:
    def counting(at: float) -> EngineReading:
        return EngineReading(epoch=1, resources=int(300_000 + at * 50), resources_limit=499_000)

    verdict = fed(ResourcesDetector(), 1800, lambda at: sample(at, counting(at)))
    assert verdict.level is Level.FIRING
    assert verdict.numbers[Number.EXHAUSTION_SECONDS] == pytest.approx((199_000 - 90_000) / 50, rel=0.1)


def test_descriptors_that_only_grow_are_a_leak_long_before_the_limit() -> None:
    def growing(at: float) -> ServiceReading:
        return ServiceReading(pid=1, fds=int(40 + at / 400), fds_limit=256)

    verdict = fed(DescriptorsDetector(), 7 * 3600, lambda at: sample(at, service=growing(at)), every=60)
    assert (verdict.level, verdict.cause) == (Level.FIRING, Cause.SERVICE)


def test_descriptors_that_come_and_go_with_clients_are_none() -> None:
    def breathing(at: float) -> ServiceReading:
        return ServiceReading(pid=1, fds=int(100 + 50 * ((at / 7200) % 1)), fds_limit=256)

    assert fed(DescriptorsDetector(), 86_400, lambda at: sample(at, service=breathing(at)), every=60).level is Level.OK


def test_a_disk_that_fills_within_the_hour_fires_and_a_download_does_not() -> None:
    def free(at: float, rate: float, until: float) -> HostReading:
        return HostReading(disk_bytes=1000 * GB, disk_free_bytes=int(100 * GB - rate * min(at, until)))

    runaway = fed(DiskDetector(), 1500, lambda at: sample(at, host=free(at, 0.04 * GB, 1e9)))
    assert runaway.level is Level.FIRING
    download = [fed(DiskDetector(), 3600, lambda at: sample(at, host=free(at, 0.04 * GB, 300))).level]
    assert Level.FIRING not in download


def test_a_wrong_canary_fires_at_once_and_three_late_ones_do() -> None:
    wrong = CanaryDetector().update(sample(0, canary=Check(1, True, 0.2, cache_is_right=False)))
    assert (wrong.level, wrong.cause) == (Level.FIRING, Cause.WRONG)
    detector = CanaryDetector()
    levels = [detector.update(sample(number, canary=Check(number, True, 90.0))).level for number in (1, 2, 2, 3)]
    assert levels == [Level.SUSPECT, Level.SUSPECT, Level.SUSPECT, Level.FIRING]


def test_canaries_without_an_answer_fire_until_one_is_answered() -> None:
    detector = CanaryDetector()
    for number in (1, 2, 3):
        verdict = detector.update(sample(number, canary=Check(number, False, 30.0)))
    assert (verdict.level, verdict.cause) == (Level.FIRING, Cause.UNANSWERED)
    assert detector.update(sample(4, canary=Check(4, True, 0.3))).level is Level.OK

"""All detectors at once: one verdict each, whatever the samples; and their memory does not grow."""

from __future__ import annotations

import pickle

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.watchdog.panel import Panel, Sensitivity
from stoker.watchdog.samples import Check, EngineReading, HostReading, Sample, ServiceReading
from stoker.watchdog.verdicts import DetectorName, Level

COUNT = st.none() | st.integers(0, 2**63)
AMOUNT = st.none() | st.floats(0, 1e12)


def readings(kind: type[msgspec.Struct]) -> st.SearchStrategy[msgspec.Struct]:
    """Any combination of absent, plain and absurd readings."""
    fields = {}
    for field in msgspec.structs.fields(kind):
        if field.name != "phase":
            fields[field.name] = AMOUNT if "float" in str(field.type) else COUNT
    if "epoch" in fields:
        fields["epoch"] = st.integers(1, 3)
    return st.builds(kind, **fields)


SAMPLES = st.lists(
    st.builds(
        Sample,
        at=st.floats(0, 1e7),
        wall=st.floats(0, 4e9),
        engine=st.none() | readings(EngineReading),
        service=readings(ServiceReading),
        host=readings(HostReading),
        canary=st.none()
        | st.builds(Check, st.integers(0, 9), st.booleans(), st.floats(0, 1e6), st.none() | st.booleans()),
        engine_deaths_total=st.integers(0, 1000),
    ),
    max_size=6,
)


@given(SAMPLES, st.booleans())
@settings(max_examples=60, deadline=None)
def test_whatever_is_read_every_detector_says_something(samples: list[Sample], ordered: bool) -> None:
    panel = Panel()
    for sample in sorted(samples, key=lambda each: each.at) if ordered else samples:
        verdicts = panel.update(sample)
        assert sorted(verdict.detector for verdict in verdicts) == sorted(DetectorName)
        for verdict in verdicts:
            assert verdict.sentence
            assert 0 <= verdict.confidence <= 1
            assert msgspec.json.encode(verdict)


def test_a_faster_clock_finds_the_same_things_sooner() -> None:
    panel = Panel(Sensitivity(speed=60.0))
    hot = [Sample(at=float(second), wall=0.0, host=HostReading(thermal_level=3)) for second in range(5)]
    levels = {verdict.detector: verdict.level for sample in hot for verdict in panel.update(sample)}
    assert levels[DetectorName.THERMAL] is Level.FIRING


def test_ten_thousand_samples_take_no_more_memory_than_the_first_of_them() -> None:
    def live(panel: Panel, samples: range) -> int:
        for number in samples:
            engine = EngineReading(
                epoch=1,
                running=number % 3,
                steps_total=number,
                active_bytes=9 * 10**9 + number % 7 * 10**7,
                weights_bytes=7 * 10**9,
                kv_bytes=10**9,
                footprint_bytes=10**10,
                limit_bytes=2 * 10**10,
                batch=1 + number % 3,
                decode_tokens_per_s=50.0 + number % 5,
                resources=number,
                resources_limit=10**6,
                fds=40 + number % 9,
                fds_limit=256,
            )
            host = HostReading(swap_used_bytes=number, swap_out_bytes_total=number, throttles_total=0, clock_ratio=0.9)
            service = ServiceReading(requests_total=number, errors_total=0, fds=50, fds_limit=256)
            panel.update(Sample(number * 20.0, 1.7e9, engine, service, host, Check(number, True, 0.3)))
        return len(pickle.dumps(panel))

    panel = Panel()
    full = live(panel, range(6500))  # after 36 hours every window is full
    assert live(panel, range(6500, 16_500)) < 1.05 * full


def test_another_incarnation_owes_nothing_to_the_one_before() -> None:
    panel = Panel()
    resources = [EngineReading(epoch=epoch, resources=9 // epoch, resources_limit=10) for epoch in (1, 2)]
    levels = [
        {verdict.detector: verdict.level for verdict in panel.update(Sample(at=float(at), wall=0.0, engine=engine))}
        for at, engine in enumerate(resources)
    ]
    assert [each[DetectorName.RESOURCES] for each in levels] == [Level.FIRING, Level.OK]

"""The service does all its text work without one MLX array: a Metal abort must not reach it."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

from stoker.config import Simulated
from tests.service.rig import Rig, ask, events, text_of
from tests.tiny_models import VOCABULARY

SCRIPT = Path(__file__).with_name("serve_and_report_memory.py")


async def test_a_service_with_a_real_tokenizer_allocates_nothing_in_mlx(
    make_rig: Callable[..., Rig], tiny_model: Path, tmp_path: Path
) -> None:
    rig = make_rig(model_path=tiny_model, simulated=Simulated(vocabulary=VOCABULARY))
    report = tmp_path / "report.json"
    service = await rig.start_service(str(SCRIPT), str(report))
    await rig.start_engine()
    async with rig.post(ask(stream=True, max_tokens=40)) as response:
        assert await text_of(events(response))
    service.send_signal(signal.SIGTERM)
    assert await service.wait() == 0
    assert json.loads(report.read_text()) == {"imported": False, "peak_bytes": 0}

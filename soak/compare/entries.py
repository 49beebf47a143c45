"""The servers that are known: how each is started on one model and one port, and when it is ready.

In a command `{model}` is the model as the file says it, `{port}` and `{other_port}` are free, `{folder}` is empty and
its own, `{streams}` how many requests will come at once, `{python}` and `{stoker}` this installation's.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Entry:
    """One server as it comes, but for what makes it serve several requests at once where that is not its default."""

    command: tuple[str, ...]
    ready: str = "/health"
    """A path that answers 200 once the model is loaded."""
    served_as: str | None = None
    """The model's name in requests; None: the first that it lists."""
    environment: dict[str, str] = field(default_factory=dict)
    metrics: tuple[str, ...] = ()
    """Where it says how often its engine died, if it can die alone."""
    engine: str | None = None
    """Words in the command line of the process that computes; None: it is the one that is started."""


ENTRIES: dict[str, Entry] = {
    "stoker": Entry(
        ("{stoker}", "serve", "--model", "{model}", "--port", "{port}", "--watchdog-port", "{other_port}"),
        ready="/health/ready",
        served_as="default",
        environment={"STOKER_HOME": "{folder}"},
        metrics=("http://127.0.0.1:{port}/metrics", "http://127.0.0.1:{other_port}/metrics"),
        engine="stoker.engine",
    ),
    "mlx_lm.server": Entry(
        ("{python}", "-m", "mlx_lm.server", "--model", "{model}", "--host", "127.0.0.1", "--port", "{port}"),
        served_as="default_model",
    ),
    "vllm-mlx": Entry(
        ("vllm-mlx", "serve", "{model}", "--host", "127.0.0.1", "--port", "{port}", "--served-model-name", "default",
         "--continuous-batching"),
        served_as="default",
    ),
    "llama-server": Entry(
        ("llama-server", "--model", "{model}", "--host", "127.0.0.1", "--port", "{port}", "--parallel", "{streams}",
         "--metrics"),
    ),
    "ollama": Entry(
        ("ollama", "serve"),
        ready="/v1/models",
        environment={"OLLAMA_HOST": "127.0.0.1:{port}", "OLLAMA_NUM_PARALLEL": "{streams}"},
        served_as="{model}",
    ),
    "omlx": Entry(
        ("omlx", "serve", "--model-dir", "{model}", "--host", "127.0.0.1", "--port", "{port}",
         "--base-path", "{folder}"),
    ),
    "vllm": Entry(
        ("vllm", "serve", "{model}", "--host", "127.0.0.1", "--port", "{port}", "--served-model-name", "default"),
        served_as="default",
    ),
    "sglang": Entry(
        ("{python}", "-m", "sglang.launch_server", "--model-path", "{model}", "--host", "127.0.0.1",
         "--port", "{port}", "--served-model-name", "default"),
        served_as="default",
    ),
}  # fmt: skip

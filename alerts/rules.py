"""From rules to `rules.yml`, which Prometheus loads, the same bytes each time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml

from .objectives import groups as burn_groups
from .rule import Alert, Group, Recording
from .symptoms import GROUPS

FILE = Path(__file__).parent / "rules.yml"
_HEAD = "# Made by `stoker alerts rules --write`; a test keeps it what the code says.\n"
_HITS = 'sum(rate(stoker_prefix_cache_tokens_total{{outcome="hit"}}[{window}]))'
_TOKENS = "sum(rate(stoker_prefix_cache_tokens_total[{window}]))"
_PREFIXES = Group(
    "stoker-prefix-hits",
    (
        *(
            Recording(f"stoker:prefix_hits:ratio_rate{window}", f"{_HITS} / {_TOKENS}".format(window=window))
            for window in ("5m", "1d")
        ),
        Recording("stoker:prefix_tokens:increase5m", "sum(increase(stoker_prefix_cache_tokens_total[5m]))"),
        Recording(
            "stoker:prefix_losses:increase5m",
            'sum(increase(stoker_prefix_cache_misses_total{reason=~"diverged|evicted"}[5m]))',
        ),
    ),
)


def groups() -> tuple[Group, ...]:
    """Everything, in the order of the file."""
    return (*burn_groups(), _PREFIXES, *GROUPS)


def alerts() -> Iterator[Alert]:
    """Every alert; burn rates come once for each window."""
    for group in groups():
        yield from (rule for rule in group.rules if isinstance(rule, Alert))


def text() -> str:
    """The file's content."""
    made = {"groups": [group.as_yaml() for group in groups()]}
    return _HEAD + yaml.safe_dump(made, sort_keys=False, width=118, allow_unicode=True)

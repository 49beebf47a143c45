"""Grafana's builders and models of the classic schema, imported without their wish to be of the next one.

The package warns as it is imported that newer schemas are to be preferred; Grafana 10 and 11 load only this one.
"""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from grafana_foundation_sdk.builders import (
        common,
        dashboard,
        heatmap,
        prometheus,
        stat,
        statetimeline,
        timeseries,
    )
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models import common as common_models
    from grafana_foundation_sdk.models import dashboard as models
    from grafana_foundation_sdk.models import heatmap as heatmap_models
    from grafana_foundation_sdk.models import prometheus as prometheus_models

__all__ = [
    "JSONEncoder",
    "common",
    "common_models",
    "dashboard",
    "heatmap",
    "heatmap_models",
    "models",
    "prometheus",
    "prometheus_models",
    "stat",
    "statetimeline",
    "timeseries",
]

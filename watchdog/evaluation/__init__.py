"""How often the detectors are right: generated 72-hour runs, healthy and sick, through the real detectors.

Read in this order: `run` (columns of numbers as samples, and what is true of them), `machine` (a healthy one under
some load), `healthy` and `sick` (the kinds of runs, by changing its columns), `judge` (a run through the panel) and
`table` (many runs, counted). docs/detection.md has the figures.
"""

"""`stoker bench`: what a target does with a workload, measured from outside, with how sure the figures are.

Read in this order: `figures` (the metrics, each with its definition, from the outcomes of one sitting) and `estimate`
(what several sittings say together) are pure; `sitting` measures once, with `memory` and `canary` beside the load;
`sweep` goes up in streams until the target is full; `report` says it for people and programs, as `text` or a `page`.
"""

"""The detectors: what is wrong with the engine, the machine or the answers. Pure; time comes from the samples alone.

Each is an object with `update(sample) -> Verdict`, whose memory is bounded. Read in this order:

1. `windows`   what they remember: spaced readings, minima by the minute and by the half hour, conditions that hold;
2. `trend`     whether a series rises: Theil-Sen slope with its bound, Mann-Kendall corrected for autocorrelation;
3. `leak`      memory that grows whatever the load or with each request, by `leak_windows`, which need statistics;
4. `slowdown`  decode speed against what was learned about this model at this batch and context;
5. the others, each a bound or two that must hold for a while: `pressure` with `shortage`, `fragmentation`, `swap`,
   `thermal`, `stall`, `errors`, `crashes`, `resources`, `descriptors`, `disk`, `canary`.

`panel` (one folder up) has one of each.
"""

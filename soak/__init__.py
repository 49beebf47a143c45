"""Load on an endpoint, and what it showed: benchmarks, comparisons of whole stacks, and soak runs of days.

It is a client: it speaks HTTP to any server of the OpenAI or Anthropic API, Stoker's or another's, and imports no MLX.
Read in this order:

1. `outcome`      what became of one request, as every part here uses it;
2. `workloads`    what is asked, and when: seeded, as data;
3. `target`       who is asked; `wire` is how the two APIs say it;
4. `load`         asks, on time, and tells each outcome; `exchange` is one request, `lag` what the client itself adds,
                  `sanity` whether a text can be right (pure);
5. `bench`        one endpoint's figures; `compare` those of several servers, `precisions` of one model's variants;

and for a soak run

6. `plan`         what it is to be, with `chaos`: what goes wrong on purpose, and when (pure);
7. `intervals`    what is written down of each, in `histogram`s and as the `tree` was; `texts` and `references`: whether
                  an answer is still what it was (pure);
8. `summary`      a run in numbers, with `drift` and `growth`; `gates` make a verdict of it (all pure);
9. `run`          the run as a story, over `asking` (load), `acts` (chaos, kept in `chaos_log`, with a `collector` to
                  take down), `keeping` (the database); `runner` is its process;
10. `report`      what it came to as a page; `show` the same at a terminal; `commands` are those of `stoker`.
"""

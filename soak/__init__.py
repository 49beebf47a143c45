"""Load on an endpoint, and what it showed: benchmarks, comparisons of whole stacks, and soak runs of days.

It is a client: it speaks HTTP to any server of the OpenAI or Anthropic API, Stoker's or another's, and imports no MLX.
Read in this order:

1. `outcome`      what became of one request, as every part here uses it;
2. `workloads`    what is asked, and when: seeded, as data;
3. `target`       who is asked; `wire` is how the two APIs say it;
4. `load`         asks, on time, and tells each outcome; `exchange` is one request, `lag` what the client itself adds,
                  `sanity` whether a text can be right (pure).
"""

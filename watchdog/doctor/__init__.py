"""`stoker doctor`: what is wrong, layer by layer, as one would look: from the client's view down to the hardware.

Each layer has a `read_…`, which asks the machine and never raises, and a `judge_…` (pure), which makes findings of what
was read. Read in this order:

1. `findings`     what a finding is, and which layers a symptom leads to;
2. `api`          what a client meets: port, key, format, streaming, tool calls; works with any server;
3. `server`       the tree: who holds the home, the configuration, the service;
4. `engine`       the engine's state, its deaths, its last step, its memory and cache;
5. `runtime`      the model's files and what runs them;
6. `backend`      Metal, CUDA or the CPU, and what it computes with;
7. `hardware`     memory, swap, disk, heat, sleep;
8. `examination`  all of them in order; `report` shows it, `bundle` packs it for somebody else.

Beside them: `system` is what is asked of the machine itself, `deaths` when the end of a child is still worth a warning.
"""

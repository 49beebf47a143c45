"""The engine: one process that holds a model and turns token ids into token ids.

It may die at any moment, so it keeps nothing that the service does not also have. Read in this order:

1. `protocol`   the words it speaks, as frozen structs (no MLX);
2. `wire`       how those words become frames on a Unix socket;
3. `client`     the other end of the socket, for the service and the watchdog;
4. `scheduler`  which rows prefill, decode or leave in the next step (pure);
5. `batch`      the rows on MLX: ragged prefill and decode, one forward pass for all;
6. `sampling`   the next token of every row, as a function of (seed, position);
   `speculative` drafts what a row says next and how much of it to verify, `grammar` says what it may say (no MLX);
   `blocks` says which KV is kept for which tokens, `misses` why not more, and `kv_disk` keeps it in files (no MLX);
7. `loop`       receive -> schedule -> forward -> send, on the one thread that touches MLX;
8. `server`     the process around the loop: socket, heartbeats, signals;
9. `simulated`  a deterministic loop with injectable faults that speaks the same protocol.

Beside them, for the processes that start an engine: `models` (fetch, check, list, convert and remove models; `pull`
and `demo_model` do the fetching, `conversion` and `quantize` the converting, `model_files` reads headers, `progress`
tells a person, `architectures` knows what mlx-lm runs) and `blas` (OpenBLAS on Linux).

Importing this package, `protocol`, `wire`, `client`, `models`, `model_files`, `pull`, `conversion`, `progress`,
`speculative`, `grammar`, `blocks`, `misses`, `kv_disk` or `blas` never imports MLX.
"""

"""The engine: one process that holds a model and turns token ids into token ids.

It may die at any moment, so it keeps nothing that the service does not also have. Read in this order:

1. `protocol`   the words it speaks, as frozen structs (no MLX);
2. `wire`       how those words become frames on a Unix socket;
3. `client`     the other end of the socket, for the service and the watchdog;
4. `scheduler`  which tokens of which rows the next step computes (pure), `pace` how many of a prompt beside streams,
   `kv_cost` what their KV takes (no MLX);
5. `batch`      the contract of whatever turns rows into tokens, and `mlx_batch`, which does it on MLX with
   `batch_rows`: `ragged` runs rows of different lengths in one pass (`row_layers` hands it their caches),
   `ragged_attention` each over its own and its shared KV, `row_stack` many short ones at once, `row_state` is what a
   model remembers of a row, `kv_arrays` its KV, quantized or not.
   `prefix_cache` lets rows begin with what is known, `prefix_tiers` finds it in RAM or on disk, as `prefix_blocks` of
   KV and, for models with windows or recurrent state, a checkpoint (`checkpoint_store`); `blocks` says which KV is kept
   for which tokens, `checkpoints` where state is saved, `misses` why not more is known, and `kv_disk` keeps it in files
   (no MLX in these four);
6. `sampling`   the next token of every row, as a function of (seed, position); `adjustments` changes logits before;
   `drafting` asks proposers (`speculative`, `grammar`, `draft_model`) what a row may say next, and `draft_controller`,
   which learns from `draft_costs`, how much of it to verify; `grammar` says what a row may say;
7. `loop`       receive -> schedule -> launch -> collect -> send, on the one thread that touches MLX; `intake` says what
   it takes, `request` is one request in it, `meter` and `counts` what it measures, `link` what passes between the two
   threads;
8. `server`     the process around the loop: socket, heartbeats, signals; `loading` makes the batch, with MLX's limits
   (`memory`, `host_memory`) and in the way that `batching` remembers to be right for its model;
9. `simulated`  a deterministic batch with injectable faults for the same loop.

Beside them, for the processes that start an engine: `models` (fetch, check, list, convert and remove models; `pull`
and `demo_model` do the fetching, `conversion` and `quantize` the converting, `model_files` reads headers, `progress`
tells a person, `architectures` knows what mlx-lm runs), `quality` (a process that says what a
precision costs on `quality_text`) and `blas` (OpenBLAS on Linux).

Importing this package, `protocol`, `wire`, `client`, `scheduler`, `kv_cost`, `host_memory`, `models`, `model_files`,
`pull`, `conversion`, `progress`, `speculative`, `drafting`, `draft_controller`, `draft_costs`, `grammar`, `pace`,
`blocks`, `checkpoints`, `misses`, `kv_disk` or `blas` never imports MLX.
"""

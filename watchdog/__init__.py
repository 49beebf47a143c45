"""The watchdog: the parent of the tree, which supervises and observes. No MLX, no user traffic.

It must outlive everything it watches, so it holds no request and waits for no child. Read in this order:

1. `restart`       when a child that ended is started again (pure);
2. `child`         one process: spawn, output, TERM -> deadline -> KILL, and `death`: how and why it ended;
3. `supervisor`    the state machine of one child, and its only writer;
4. `engine_role`   what an engine child needs before it starts, when it is ready, and by `stall` when it is stuck;
5. `service_role`  the same for the service;
6. `door`          what is checked before the tree starts, and what is held while it runs;
7. `shed_level`    how much load is turned away, once that is decided: makes the service do it;
8. `tree`          startup -> run -> shutdown of all of them;
9. `samples`       one look at everything; `panel` has `detectors` judge it in `verdicts`, and `policy` makes
                   `decisions` of them: `courses` up and down the ladders of `remedies` (all pure);
10. `sensors`      what is read, as samples; `incidents` and `death_incidents`: what is wrong, and when;
                   `effects` do what is decided, `canary` asks through the API, `schedule` when; `journal` remembers;
                   `observation` is the loop over all that, `watching` joins it;
11. `status`       what the tree says about itself, as frozen structs;
12. `api`          the HTTP interface on loopback: status, incidents, samples, metrics, restart;
13. `client`       how the `stoker` command finds a running tree and talks to it.

Beside them: `commands` are those of `stoker` about a tree; `replay` and `evaluation` run recorded and generated samples
through the detectors; `install` hands the tree to launchd or systemd by the files of `units` (pure), and `notify` is
what systemd hears from then on; `connect` brings an agent of `agents` (pure) to the `endpoint`; `doctor` says what is
wrong; `soaks` hears of soak runs (in `soak_news`) and begins those that `soak_schedule` says are due; `stacks` (what a
stuck child was doing), `home` (files under `$STOKER_HOME`), `ports` (listening sockets), `log_output` (where every line
of the tree goes), `log_file` (that on disk), `metrics` (names, declared once;
`metrics_page` writes them down), `table` (the status for people), `waterfall` (a request's trace for people), `errors`.
"""

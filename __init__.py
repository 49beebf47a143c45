"""Stoker keeps a self-hosted LLM endpoint alive for days and says exactly why when it can't.

Three processes make one tree:

    stoker serve ....... the watchdog: parent, supervisor, observer. No MLX, no user traffic.
      |-- engine ....... MLX on exactly one thread, behind a Unix socket. Token ids in and out. May die at any time.
      `-- service ...... the HTTP API. Holds every request's text and every token already sent.

Read in this order: `config` (every setting), `engine/protocol` (the words between the processes),
`engine` (scheduler, batch, loop), `service` (API, text, ledger), `watchdog` (children, sensors, detectors, policy),
`alerts` (who is told, and how), `dashboards` (Grafana's boards), `soak` (load, and what it showed), `cli`.

Arrows only go down: `cli` -> `soak` -> `watchdog` -> `alerts`, `dashboards` -> `service` -> `engine/protocol`. Nothing
outside `engine/` may assume that token ids come from this machine or that there is only one engine.
"""

__version__ = "0.1.0"

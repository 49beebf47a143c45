"""The service: one process that speaks HTTP and text to clients, and token ids to an engine.

It holds every request's text and every token already sent, so that an engine may die without a client noticing.
It never evaluates an MLX array. Read in this order:

1. `errors`      everything a client can be told when something is wrong;
2. `schemas`     what a request may say;
3. `admission`   whether a request is taken, and how much it may write (pure); `door` acts on it for a `caller`;
4. `text`        messages to token ids and back; `model_text` does it with a model's own tokenizer;
5. `entry`       one request in flight; `ledger` holds all of them, and is where a resume happens; `turns` says who is
                 next, by `fairness` and `quarantine` (pure);
6. `stream`      from the ledger, which never waits, to one client, which may;
7. `stop`        stop strings (pure); `transcript` joins detokenizer and stop strings for one request;
8. `openai`      the shape of answers; `routes` what each path does; `middleware` what all of them share;
9. `metrics`     every metric's name; `observer` what is measured, `pace` how fast requests end, `telemetry` where
                 values come from; `internal` is what the watchdog may ask for;
10. `app`        the parts joined, their start and their end.
"""

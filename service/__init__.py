"""The service: one process that speaks HTTP and text to clients, and token ids to an engine.

It holds every request's text and every token already sent, so that an engine may die without a client noticing.
It never evaluates an MLX array. Read in this order:

1. `errors`      everything a client can be told when something is wrong;
2. `schemas`     how a request is read; `auth` says who may send one; `openai` and `anthropic` are the two APIs: what
                 their requests may say, and how their answers are written;
3. `admission`   whether a request is taken, and how much it may write (pure), `allowance` what a key may have;
                 `door` acts on both for a `caller`;
4. `conversation` what was asked, whatever the API; `canonical` takes out what changes each time (pure), `template`
                 puts it into the form that chat templates know (pure); `text` makes token ids of it and text of ids,
                 `model_text` with a model's own tokenizer, `byte_text` for the simulated engine;
                 `text_worker` does it off the event loop;
5. `entry`       one request in flight; `ledger` holds all of them (`snapshot`: in numbers), and is where a resume
                 happens; `turns` says who is next, by `fairness` and `quarantine`, `patience` who has waited for too
                 long (pure);
6. `stream`      from the ledger, which never waits, to one client, which may;
7. `markup`      the tags in a model's text (pure); `tools` reads calls, `segments` says what an answer consists of,
                 `stop` cuts it at stop strings (pure); `transcript` joins them for one request;
8. `asking`      from what is asked to a plan, `sampling` part of it; `answering` carries it out, `relay` brings it to
                 the client, `cache_report` tells what the cache did, `timing` where the time went; `routes` says which
                 path does what, `openapi` describes them, `middleware` is what all of them share, `cors` lets browsers
                 in;
9. `metrics`     every metric's name; `observer` what is measured, `pace` how fast requests end, `readings` where
                 values come from, `engine_totals` what all engines did (pure);
10. `telemetry`  every span's and attribute's name; `trace` is one request's, `trail` what happened to a generation,
                 `spans` makes the one of the other (pure), `operation` says what was asked; `traces` owns the last
                 ones, `keeping` says which are sent (pure), `export` sends them, as `otlp` wants it;
11. `internal`   what the watchdog and its commands may ask for; `pages` is the status page;
12. `app`        the parts joined, their start and their end, on every `connection`.
"""

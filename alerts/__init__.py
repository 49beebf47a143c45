"""Telling somebody: rules and runbooks for who has Prometheus, webhooks that always arrive for who has not.

Read in this order:

1. `edge`        what is told: an incident began, or ended; `severity` how bad each kind is, and what it is called;
2. `delivery`    an edge on its way to one target; `outbox` which is sent when (pure): order, retries, circuits;
                 `backoff` how long to wait;
3. `quiet`       when nobody is told;
4. `message`     an edge as Alertmanager would say it; `templates` as Slack, Discord, ntfy and PagerDuty want it;
5. `targets`     who is told, with their secrets; `webhook` one POST, signed, and what came of it;
6. `courier`     the one task that persists, claims and delivers; `trial` is a marked message to every target;
7. `rule`        what a rule of Prometheus is in this house; `objectives` the burn rates, `symptoms` everything else;
                 `rules` writes them to `rules.yml`; `alertmanager.yml` routes them; `runbooks` say what to do.

The watchdog hands its incidents to the courier and lends it its journal; nothing here knows the watchdog.
"""

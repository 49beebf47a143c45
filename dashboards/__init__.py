"""Dashboards for Grafana, built from code and committed as JSON, so that what is looked at can be reviewed.

Read in this order:

1. `panels`   what a board, a panel and a query are in this house (no Grafana yet), and `links` where they lead;
2. `boards`   one module a board: `uptime`, `requests`, `memory`, `host`, `soak`;
3. `build`    from a board to Grafana's JSON in `json/`; `provisioning/` is what Grafana, Prometheus and Tempo read;
4. `check`    every query of every board against a live Prometheus; `commands` are the commands.

Only names of metrics and spans are known here; nothing of a running tree is imported.
"""

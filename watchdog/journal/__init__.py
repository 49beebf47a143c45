"""The watchdog's journal: what happened, kept over restarts in a database that may fail without anybody noticing.

Read in this order: `records` (what is kept), `tables` (how it lies in the database), `store` (the one connection),
`queue` (what waits to be written), `journal` (between those who record and the store, and its only writer), `shelf`
(the same for webhooks on their way), `migrations` (how older databases become this one), `history` (who records what
children do), `uptime` (pure: what the intervals say).

Recording never waits and never fails. Whatever the database does, the queue is bounded, and what it drops is counted.
"""

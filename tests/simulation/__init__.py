"""Days of faults in seconds: the real ledger, quarantine, admission and restart policy under a simulated clock.

Read `clock`, `machine` (an engine and who restarts it), `visitors` (requests and what they must see), `days` (one
run), `run` (many of them: `python -m tests.simulation.run --seed N` replays one).
"""

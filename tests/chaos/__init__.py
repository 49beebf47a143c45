"""Chaos: clients without pause, an engine that is killed at random moments, and texts that must not notice.

`workload` makes the requests, `clients` sends them, `monkey` kills, `findings` judges what came of it (pure), `ties`
looks closer at greedy texts that differ, and `run` puts them together on a real tree:

    python -m tests.chaos.run MODEL_FOLDER [--minutes 10] [--seed N]
"""

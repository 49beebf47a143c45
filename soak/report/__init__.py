"""What a run came to, for people: `numbers` and `series` make it of the run (pure), `figures` draw it with plotly,
`page` and `markdown` put it together, `files` writes both under `$STOKER_HOME/reports`.
"""

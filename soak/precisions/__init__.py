"""`stoker bench --precisions`: one model in several precisions, by speed, memory and quality.

`variants` names them, `advice` recommends one (pure), `quality` asks the engine's child process what a precision
costs, `trying` makes, measures and removes them.
"""

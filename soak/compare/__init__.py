"""`stoker compare`: several whole servers, one after the other, on the same work; each started and stopped by the tool.

`entries` are the servers it knows, as data; `stacks` reads which of them are wanted, and how; `running` is one of them
as a process; `comparing` takes them in turn and makes one report.
"""

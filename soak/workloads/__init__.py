"""What is asked, and when: conversations that a seed makes, so that two servers, or two days, get the same.

`conversation` says what a workload is; `words` makes texts of a wanted length; `shapes` are kinds of conversations as
data, and `arrivals` the rhythms in which they begin; `catalog` names workloads made of them. `trace` plays recorded
traffic again. Pure, but for the trace's file.
"""

from .catalog import NAMES, workload
from .conversation import Conversation, Message, Turn, Workload

__all__ = ["NAMES", "Conversation", "Message", "Turn", "Workload", "workload"]

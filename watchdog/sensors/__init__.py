"""What can be read about the machine and the tree's processes, each reading frozen, with its unit in its name.

Read in this order: `sensors` (the interfaces, and which ones this machine gets), `text` (small files that may be absent
or absurd), `linux` and its `linux_heat`, `nvidia`, `macos`, `engine` (readings from heartbeats), `service` (the
service's own word), `sampler` (all of them as one sample).

A sensor never raises: what is absent, cut short or absurd is None, and the next reading may be whole again.
"""

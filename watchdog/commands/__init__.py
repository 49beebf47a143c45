"""The `stoker` commands about a running tree and its machine, a module each; `options` is what they have in common.

What is slow to import is imported by the command that needs it.
"""

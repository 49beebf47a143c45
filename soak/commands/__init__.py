"""The commands of `stoker` that put load on an endpoint."""

"""Pictures of the boards for the documentation: `take` runs a tree, asks its Prometheus and has `page.jsx` draw.

Grafana itself is in no package registry, but its components are (`@grafana/ui`), so Node and npm are needed.
"""

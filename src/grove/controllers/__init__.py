"""Observe and apply: caches in, plans out, one short file per kind. `apply` is the only interpreter of a Plan."""

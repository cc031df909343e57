"""One file per kind of owner: what a PodGroup is for it beyond what every group inherits. `table` says which."""

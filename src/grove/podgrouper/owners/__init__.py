"""One file per family of owner kinds: what a PodGroup is for them beyond what every group inherits."""

"""One file per scheduler: what it needs on a pod to see its gang, and whether it holds incomplete gangs back."""

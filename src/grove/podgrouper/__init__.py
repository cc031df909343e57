"""Pod → KAI PodGroup, as values: what owners, PodGangs and Workloads say about a pod. Nothing here does I/O."""

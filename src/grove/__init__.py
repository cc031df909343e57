"""Grove: gang-scheduled, topology-aware, multi-node AI workloads on Kubernetes."""

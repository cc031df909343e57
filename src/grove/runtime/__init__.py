"""How we talk to a cluster, knowing no Grove kind: transport, client, caches, queues, leadership, observability."""

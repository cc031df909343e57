"""How fast the product is on a real cluster, measured in one run against what the API server itself allows."""

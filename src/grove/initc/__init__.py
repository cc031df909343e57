"""The waiting program of start ordering: an init container that ends when the cliques its pod starts after are ready.

It runs once in every pod that starts after another, so it stays small: the standard library and nothing else.
"""

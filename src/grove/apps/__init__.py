"""Composition roots: programs put together from the rooms. No logic of their own."""

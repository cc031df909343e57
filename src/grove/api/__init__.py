"""What the objects are: one file per kind, with their names, labels and reasons. No I/O, no decisions."""

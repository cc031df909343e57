"""What should happen next: pure functions from an observed world and the time to a Plan. No I/O, no clock."""

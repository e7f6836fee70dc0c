"""A capture becomes rows of the fleet's tables, in a process with limits."""

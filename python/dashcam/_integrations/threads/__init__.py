"""Work that code hands to other threads and tasks."""

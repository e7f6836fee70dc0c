"""Workers of queues: a job is a request."""

"""What the replicas report, polled in the background; nothing of it stands in a request's way."""

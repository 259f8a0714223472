"""Readers that turn a checkpoint on disk into one `Checkpoint` value."""

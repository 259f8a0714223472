"""Wire formats: each turns bytes into a `CompletionRequest` and an answer into bytes."""

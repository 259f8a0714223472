"""The tokenizer of a checkpoint: its document, its vocabulary, its special tokens."""

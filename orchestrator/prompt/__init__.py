"""Prompt composition: recipes, windows and the tokenizer. Pure but for reading engine folders."""

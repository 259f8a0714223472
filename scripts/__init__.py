"""What people run: start and stop a stack, ask it, measure it, check the code."""

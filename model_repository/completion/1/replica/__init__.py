"""The replica: everything behind the Triton adapter, from tensors to tokens.

Nothing here imports Triton. One thread owns the engine (`engine_loop`), everything else hands it
work through bounded queues or reads what it published.
"""

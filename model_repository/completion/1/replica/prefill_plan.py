"""How much of a prompt one step computes.

openvino-genai can split a prompt over steps by itself, but it registers the block at a split under
the hash of the whole block before the rest is computed, so a prompt cancelled there leaves a block
that later prompts reuse although most of it was never computed (seen with 2026.4.1). The engine
therefore cuts prompts itself, at block boundaries only: each part is a request of its own that is
computed whole, and the next part finds it in the cache.
"""


def prefill_end(prompt_tokens: int, cached_tokens: int, budget: int, block_tokens: int) -> int:
    """The prompt position up to which the next step computes.

    Args:
        prompt_tokens: length of the prompt.
        cached_tokens: how much of it needs no computing.
        budget: tokens that the step may still compute.
        block_tokens: tokens in a cache block.

    Returns:
        `prompt_tokens` if the rest fits, else the last block boundary within the budget; a value
        of `cached_tokens` or less means that nothing fits.
    """
    if prompt_tokens - cached_tokens <= budget:
        return prompt_tokens
    reach = cached_tokens + budget
    return reach - reach % block_tokens

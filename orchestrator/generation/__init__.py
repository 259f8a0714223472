"""Generation: the seam to the engine, its Triton client and fake, stop rules and decoding."""

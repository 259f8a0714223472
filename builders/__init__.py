"""Everything that makes engines: checkpoint readers, the engine builder, the reference model."""

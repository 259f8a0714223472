"""The request plane: one editor request in, one suggestion or a fast nothing out."""

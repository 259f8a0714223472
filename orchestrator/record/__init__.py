"""Exactly one record per request, whatever happened to it."""

"""Renderers: they make text, pages and data from a summary or a snapshot, and read no run folder."""

"""From tables to something that people read."""

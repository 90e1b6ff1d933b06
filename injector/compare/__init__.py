"""Runs beside each other: what differs in the work, and how surely one is slower than another."""

"""Batch sizes that fit a device: observations, what follows from them, and how they are made."""

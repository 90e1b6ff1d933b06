"""Becoming the program: what the parent starts, and what wakes up inside the child."""

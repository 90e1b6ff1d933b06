"""A program that does nothing: what remains is start-up."""

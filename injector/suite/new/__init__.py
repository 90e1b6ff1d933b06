"""A new benchmark: its folder, with a voirfile that finds the training loop."""

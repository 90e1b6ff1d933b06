"""A new benchmark, written for somebody: its folder, with a voirfile that finds the training loop."""

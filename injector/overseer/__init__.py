"""What a voirfile works with: the overseer, its phases, options, probes and streams."""

"""What a voirfile meets: the overseer, its phases, options, probes and streams."""

"""How records get from the processes of a program into its run folder."""

"""One ``inject run``: what it starts, where, with which sidecars, and what is made of the program's end.

The verb (:mod:`..cli.run`) has checked the command line. :mod:`.supervised` runs the program on this host.
:mod:`.elsewhere` and :mod:`.contained` run the same command on another one, or in a container. A task of a
Slurm step, or a process of ``mpirun``, is an ``inject run`` of its own (:mod:`.step_tasks`).
"""

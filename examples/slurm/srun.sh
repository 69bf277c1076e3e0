#!/bin/bash
# The shortest way: inside an allocation of two nodes (salloc --nodes=2), or as it stands from a login node.
# srun starts one agent on each node; they find each other by what Slurm tells them.
#
#   examples/slurm/srun.sh configs/cpu_2node.yaml
exec srun --nodes=2 --ntasks-per-node=1 --kill-on-bad-exit=0 llmtrain launch "$@"

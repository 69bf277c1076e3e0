#!/bin/bash
# Two nodes to try things on: an allocation, a job in it, and the allocation again when the job has ended. Ctrl-C
# stops the job at a step, saves, and leaves the allocation; a second one does not wait.
#
#   examples/slurm/interactive.sh configs/cpu_2node.yaml
exec salloc --nodes=2 --ntasks-per-node=1 --time=01:00:00 \
  srun --ntasks-per-node=1 --kill-on-bad-exit=0 llmtrain launch "$@"

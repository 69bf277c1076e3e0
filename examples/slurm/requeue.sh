#!/bin/bash
# A job that saves when its time is up and goes on in a new allocation, written by hand. `llmtrain submit` writes a
# longer one, which also excludes bad nodes and survives more accidents.
#
#   sbatch examples/slurm/requeue.sh configs/cpu_2node.yaml
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --time=04:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append

# Slurm signals this shell; srun passes the signal on to the agents, which save and end with 75.
trap 'kill -USR1 $agents' USR1
srun --ntasks-per-node=1 --kill-on-bad-exit=0 llmtrain launch "$@" &
agents=$!
wait $agents
code=$?
# The first wait ends with the signal, the second with the agents.
if [ $code -gt 128 ]; then
  wait $agents
  code=$?
fi
[ $code -ne 75 ] || scontrol requeue "$SLURM_JOB_ID"
exit $code

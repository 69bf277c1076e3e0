"""What bench/launch.py launches with torchrun: DDP over Gloo on a tiny model, a checkpoint after every step.

Usage: torchrun ... torchrun_job.py LOG CHECKPOINT. Rank 0 adds a line with the time to LOG after each step.
"""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

log, checkpoint = sys.argv[1:]
dist.init_process_group("gloo")
torch.set_num_threads(1)
model = nn.Sequential(nn.Embedding(128, 32), nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 128))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
step = 0
if os.path.exists(checkpoint):
    state = torch.load(checkpoint)
    step = state["step"]
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
wrapped = DistributedDataParallel(model)
while True:
    tokens = torch.randint(128, (4, 32))
    loss = nn.functional.cross_entropy(wrapped(tokens).view(-1, 128), tokens.view(-1))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    step += 1
    if dist.get_rank() == 0:
        state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, checkpoint + ".new")
        os.replace(checkpoint + ".new", checkpoint)
        with open(log, "a") as file:
            file.write(f"{time.time()} {os.getpid()} {step}\n")
    time.sleep(0.02)

"""What bench/mesh_step.py launches with torchrun: the step of pytorch_step.py with DDP or FSDP2 over Gloo.

Usage: torchrun ... pytorch_mesh.py ddp|fsdp2 STEPS SEQUENCES_OF_A_RANK FILE. Rank 0 leaves the milliseconds of
every step in FILE.
"""
import json
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from pytorch_step import SEQ, VOCAB, Llama, rotations


def distributed(model, kind):
    if kind == "ddp":
        return DistributedDataParallel(model, gradient_as_bucket_view=True)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def main():
    kind, steps, sequences, file = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = distributed(Llama(), kind)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    cos, sin = rotations(torch.float32)
    torch.manual_seed(1 + dist.get_rank())
    tokens = torch.randint(VOCAB, (sequences, SEQ))
    labels = torch.randint(VOCAB, (sequences, SEQ))
    times = []
    for _ in range(steps):
        began = time.perf_counter()
        loss = F.cross_entropy(model(tokens, cos, sin).view(-1, VOCAB), labels.view(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        model.zero_grad(set_to_none=True)
        dist.barrier()  # a step is over when all ranks have made it
        times.append((time.perf_counter() - began) * 1e3)
    if dist.get_rank() == 0:
        with open(file, "w") as out:
            json.dump(times, out)
    dist.destroy_process_group()


main()

"""The same step in PyTorch eager: llama-10m, scaled_dot_product_attention, fused AdamW.

Usage: pytorch_step.py fp32|bf16 [steps] [threads]. bf16 keeps bf16 weights and fp32 master weights, as
llmtrain does. Prints one JSON object: times of every step and its parts, and the peak resident memory.
"""
import json
import resource
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

VOCAB, HIDDEN, LAYERS, HEADS, FFN, SEQ, BATCH = 512, 384, 6, 6, 1024, 256, 8


class RmsNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(HIDDEN))

    def forward(self, x):
        return F.rms_norm(x, (HIDDEN,), self.weight, 1e-5)


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        linear = lambda i, o: nn.Linear(i, o, bias=False)
        self.norm1, self.norm2 = RmsNorm(), RmsNorm()
        self.q, self.k, self.v, self.o = (linear(HIDDEN, HIDDEN) for _ in range(4))
        self.gate, self.up, self.down = linear(HIDDEN, FFN), linear(HIDDEN, FFN), linear(FFN, HIDDEN)

    def forward(self, x, cos, sin):
        b, s, _ = x.shape
        n = self.norm1(x)
        heads = lambda y: y.view(b, s, HEADS, HIDDEN // HEADS).transpose(1, 2)
        q, k, v = heads(self.q(n)), heads(self.k(n)), heads(self.v(n))
        a = F.scaled_dot_product_attention(rotate(q, cos, sin), rotate(k, cos, sin), v, is_causal=True)
        x = x + self.o(a.transpose(1, 2).reshape(b, s, HIDDEN))
        n = self.norm2(x)
        return x + self.down(F.silu(self.gate(n)) * self.up(n))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, HIDDEN)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = RmsNorm()
        self.head = nn.Linear(HIDDEN, VOCAB, bias=False)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, cos, sin):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.head(self.norm(x))


def rotations(dtype):
    angles = torch.outer(torch.arange(SEQ).double(), 10000.0 ** (-torch.arange(0, 64, 2).double() / 64))
    return angles.cos().to(dtype), angles.sin().to(dtype)


def main():
    kind = sys.argv[1] if len(sys.argv) > 1 else "fp32"
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 12
    torch.set_num_threads(int(sys.argv[3]) if len(sys.argv) > 3 else 2)
    torch.manual_seed(0)
    dtype = torch.bfloat16 if kind == "bf16" else torch.float32
    model = Llama().to(dtype)
    masters = [p.detach().float().requires_grad_() for p in model.parameters()] if kind == "bf16" else None
    optimizer = torch.optim.AdamW(masters or model.parameters(), lr=3e-4, fused=True)
    cos, sin = rotations(dtype)
    tokens = torch.randint(VOCAB, (BATCH, SEQ))
    labels = torch.randint(VOCAB, (BATCH, SEQ))
    times = {"forward": [], "backward": [], "optimizer": [], "step": []}
    for _ in range(steps):
        t0 = time.perf_counter()
        logits = model(tokens, cos, sin)
        loss = F.cross_entropy(logits.float().view(-1, VOCAB), labels.view(-1))
        t1 = time.perf_counter()
        loss.backward()
        t2 = time.perf_counter()
        if masters:
            for m, p in zip(masters, model.parameters()):
                m.grad = p.grad.float()
        torch.nn.utils.clip_grad_norm_(masters or model.parameters(), 1.0)
        optimizer.step()
        if masters:
            with torch.no_grad():
                for m, p in zip(masters, model.parameters()):
                    p.copy_(m)
        model.zero_grad(set_to_none=True)
        t3 = time.perf_counter()
        for name, value in zip(times, (t1 - t0, t2 - t1, t3 - t2, t3 - t0)):
            times[name].append(value * 1e3)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    print(json.dumps({f"{name}_ms": values for name, values in times.items()} | {"loss": loss.item(), "peak_gb": peak}))


if __name__ == "__main__":
    main()

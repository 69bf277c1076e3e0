"""A llama of a dozen lines: plain tensor functions over a dictionary of Hugging Face names."""

import torch
import torch.nn.functional as F


def rms_norm(x, weight, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def rotate(x, theta):
    """Rotary positions on [batch, heads, length, head_dim], halves paired as Hugging Face pairs them."""
    half = x.shape[-1] // 2
    frequencies = theta ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * frequencies
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def attention(x, w, prefix, heads, kv_heads, theta):
    batch, length, _ = x.shape
    def project(name, count):
        return F.linear(x, w[f"{prefix}.{name}_proj.weight"]).view(batch, length, count, -1).transpose(1, 2)
    q, k, v = rotate(project("q", heads), theta), rotate(project("k", kv_heads), theta), project("v", kv_heads)
    k, v = (t.repeat_interleave(heads // kv_heads, 1) for t in (k, v))
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    scores = scores.masked_fill(torch.ones(length, length, dtype=torch.bool).triu(1), float("-inf"))
    return F.linear((scores.softmax(-1) @ v).transpose(1, 2).flatten(2), w[f"{prefix}.o_proj.weight"])


def loss(w, tokens, layers, heads, kv_heads, eps=1e-5, theta=10000.0):
    """Mean cross entropy of tokens [batch, length + 1], each predicted from those before it."""
    x = w["model.embed_tokens.weight"][tokens[:, :-1]]
    for layer in range(layers):
        prefix = f"model.layers.{layer}"
        h = rms_norm(x, w[f"{prefix}.input_layernorm.weight"], eps)
        x = x + attention(h, w, f"{prefix}.self_attn", heads, kv_heads, theta)
        h = rms_norm(x, w[f"{prefix}.post_attention_layernorm.weight"], eps)
        gate, up = (F.linear(h, w[f"{prefix}.mlp.{name}_proj.weight"]) for name in ("gate", "up"))
        x = x + F.linear(F.silu(gate) * up, w[f"{prefix}.mlp.down_proj.weight"])
    logits = F.linear(rms_norm(x, w["model.norm.weight"], eps), w["lm_head.weight"])
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

"""Compares our model with Hugging Face's: logits, loss and every gradient, in fp32.

Usage: hf_oracle.py DUMP_PROGRAM [--break-rope]
Runs the program into a temporary directory, builds the HF model of each family with the same weights and
compares. --break-rope stores query and key heads in the interleaved layout on the HF side; the run then
succeeds only if every model with rotary positions is found different: proof that the comparison can fail.
"""
import json
import os
import subprocess
import sys
import tempfile

os.environ["TRANSFORMERS_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
import numpy as np
import torch
import transformers

TOLERANCE = 1e-5


def load(path):
    return torch.from_numpy(np.load(path))


def build(meta):
    common = dict(vocab_size=meta["vocab_size"], tie_word_embeddings=meta["tie_embeddings"],
                  attn_implementation="eager", bos_token_id=None, eos_token_id=None, pad_token_id=None)
    if meta["family"] == "gpt2":
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(
            n_embd=meta["hidden_size"], n_layer=meta["num_layers"], n_head=meta["num_heads"],
            n_positions=meta["max_position"], n_inner=meta["ffn_hidden_size"],
            activation_function=meta["activation"], layer_norm_epsilon=meta["norm_eps"],
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **common))
    name = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}[meta["family"]]
    rope = dict(meta["rope"])
    rope.setdefault("rope_type", "default")
    extra = {}
    if name == "Llama":
        extra = dict(attention_bias=meta["qkv_bias"], mlp_bias=meta["mlp_bias"])
    if name == "Mistral":
        extra = dict(sliding_window=None)
    config = getattr(transformers, name + "Config")(
        hidden_size=meta["hidden_size"], num_hidden_layers=meta["num_layers"],
        num_attention_heads=meta["num_heads"], num_key_value_heads=meta["num_kv_heads"],
        head_dim=meta["head_dim"], intermediate_size=meta["ffn_hidden_size"],
        max_position_embeddings=meta["max_position"], rms_norm_eps=meta["norm_eps"],
        hidden_act=meta["activation"], rope_parameters=rope, **extra, **common)
    return getattr(transformers, name + "ForCausalLM")(config)


def gpt2_names(tensors, layers):
    """Our names to GPT-2's: fused c_attn, Conv1D matrices are [in, out]."""
    t = tensors
    out = {"transformer.wte.weight": t["model.embed_tokens.weight"],
           "transformer.wpe.weight": t["model.position_embeddings.weight"],
           "transformer.ln_f.weight": t["model.norm.weight"], "transformer.ln_f.bias": t["model.norm.bias"]}
    if "lm_head.weight" in t:
        out["lm_head.weight"] = t["lm_head.weight"]
    for i in range(layers):
        ours, theirs = f"model.layers.{i}.", f"transformer.h.{i}."
        for suffix in ("weight", "bias"):
            fused = torch.cat([t[ours + f"self_attn.{x}_proj.{suffix}"] for x in "qkv"])
            turn = (lambda x: x.t().contiguous()) if suffix == "weight" else (lambda x: x)
            out[theirs + "attn.c_attn." + suffix] = turn(fused)
            out[theirs + "attn.c_proj." + suffix] = turn(t[ours + "self_attn.o_proj." + suffix])
            out[theirs + "mlp.c_fc." + suffix] = turn(t[ours + "mlp.up_proj." + suffix])
            out[theirs + "mlp.c_proj." + suffix] = turn(t[ours + "mlp.down_proj." + suffix])
            out[theirs + "ln_1." + suffix] = t[ours + "input_layernorm." + suffix]
            out[theirs + "ln_2." + suffix] = t[ours + "post_attention_layernorm." + suffix]
    return out


def interleaved(weights, meta):
    """Query and key rows as Meta's original layout has them: pairs (2i, 2i + 1)."""
    d = meta["head_dim"]
    out = {}
    for name, w in weights.items():
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            w = w.view(-1, 2, d // 2, w.shape[1]).transpose(1, 2).reshape(w.shape).contiguous()
        out[name] = w
    return out


def difference(ours, theirs, floor):
    scale = max(theirs.abs().max().item(), floor)
    return (ours.double() - theirs.double()).abs().max().item() / scale


def compare(directory, break_rope):
    """Largest relative difference of each kind, with the name of the worst gradient."""
    with open(os.path.join(directory, "meta.json")) as file:
        meta = json.load(file)
    read = lambda kind: {f[:-4]: load(os.path.join(directory, kind, f))
                         for f in sorted(os.listdir(os.path.join(directory, kind)))}
    weights, grads = read("weights"), read("grads")
    if break_rope and meta["family"] != "gpt2":
        weights = interleaved(weights, meta)
    if meta["family"] == "gpt2":
        weights, grads = gpt2_names(weights, meta["num_layers"]), gpt2_names(grads, meta["num_layers"])
    model = build(meta).float().eval()
    missing, unexpected = model.load_state_dict(weights, strict=False)
    missing = [m for m in missing if not (m == "lm_head.weight" and meta["tie_embeddings"])]
    if missing or unexpected:
        raise SystemExit(f"{directory}: names differ: missing {missing}, unexpected {unexpected}")
    names = {n for n, _ in model.named_parameters()}
    if names != set(grads):
        raise SystemExit(f"{directory}: parameters differ: {sorted(names ^ set(grads))}")
    tokens, labels = load(os.path.join(directory, "tokens.npy")), load(os.path.join(directory, "labels.npy"))
    logits = model(tokens).logits
    loss = torch.nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1), ignore_index=-100)
    loss.backward()
    floor = 1e-3 * max(p.grad.abs().max().item() for p in model.parameters())
    worst = max((difference(grads[n], p.grad, floor), n) for n, p in model.named_parameters())
    return {"logits": difference(load(os.path.join(directory, "logits.npy")), logits.detach(), 0.0),
            "loss": abs(meta["mean_loss"] - loss.item()) / abs(loss.item()),
            "gradient": worst[0], "worst": worst[1], "rope": meta["family"] != "gpt2", "count": len(names)}


def main():
    break_rope = "--break-rope" in sys.argv
    torch.set_num_threads(2)
    failed = False
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([sys.argv[1], directory], check=True)
        models = sorted(os.listdir(directory))
        assert len(models) >= 5, models
        for name in models:
            result = compare(os.path.join(directory, name), break_rope)
            equal = max(result["logits"], result["loss"], result["gradient"]) < TOLERANCE
            expected = not (break_rope and result["rope"])
            print(f"{name:8} logits {result['logits']:.1e} loss {result['loss']:.1e} gradients "
                  f"{result['gradient']:.1e} over {result['count']} tensors, worst {result['worst']}: "
                  f"{'equal' if equal else 'DIFFERENT'}{'' if equal == expected else ' (unexpected)'}")
            failed |= equal != expected
    return 1 if failed else 0


sys.exit(main())

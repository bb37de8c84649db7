# Makes cases/: tiny random models of each supported architecture as transformers saves them, and golden.json with what PyTorch
# computes from them: logits, log-probs, gradient norms, and parameters after one clipped AdamW step. Same versions, same bytes:
#   pip install torch==2.13.0 transformers==5.24.0 safetensors
#   python make.py                     writes cases/
#   python make.py check FOLDER CASE   loads a folder that Cohort saved and compares its logits with the case's
import json
import math
import pathlib
import shutil
import sys

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config, SmolLM3Config

HERE = pathlib.Path(__file__).parent
SHAPE = dict(
    vocab_size=40, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=64, bos_token_id=None, eos_token_id=1, pad_token_id=0,
)
LLAMA3_ROPE = dict(
    rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16
)
# name: config, dtype of the files, largest shard
CASES = {
    "llama": (LlamaConfig(**SHAPE, tie_word_embeddings=False, attention_bias=False), torch.float32, None),
    "llama-bias-sharded": (LlamaConfig(**SHAPE, tie_word_embeddings=False, attention_bias=True, mlp_bias=True), torch.float32, "30KB"),
    "llama3-rope": (LlamaConfig(**SHAPE, tie_word_embeddings=True, rope_parameters=LLAMA3_ROPE), torch.float16, None),
    "qwen2": (Qwen2Config(**SHAPE, tie_word_embeddings=True), torch.float32, None),
    "qwen3": (Qwen3Config(**{**SHAPE, "num_key_value_heads": 1}, head_dim=12, tie_word_embeddings=True), torch.float32, None),
    "smollm3": (SmolLM3Config(**SHAPE, no_rope_layers=[1, 0], tie_word_embeddings=True), torch.float32, None),
    "mistral": (MistralConfig(**SHAPE, sliding_window=None, tie_word_embeddings=False), torch.bfloat16, None),
}
LENGTHS = [12, 9]
PROMPT = 4
LEARNING_RATE = 1e-3
DECAY = 0.01


def fill(model, generator):
    """Values far enough from their defaults that a forgotten norm, bias or scale shows."""
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            noise = torch.randn(parameter.shape, generator=generator)
            if name.endswith("norm.weight"):
                parameter.copy_(1 + 0.2 * noise)
            elif name.endswith("bias"):
                parameter.copy_(0.3 * noise)
            else:
                parameter.copy_(noise * (0.5 if "embed" in name else 1.2 / math.sqrt(parameter.shape[1])))


def rows(generator, vocab):
    """Two rows padded on the right; completion tokens are trained."""
    length = max(LENGTHS)
    ids = torch.zeros(len(LENGTHS), length, dtype=torch.long)
    trained = torch.zeros(len(LENGTHS), length)
    for row, real in enumerate(LENGTHS):
        ids[row, :real] = torch.randint(2, vocab, (real,), generator=generator)
        trained[row, PROMPT - 1 : real - 1] = 1
    return ids, trained


def short(values):
    return [float(f"{value:.7g}") for value in torch.as_tensor(values).flatten().tolist()]


def some(tensor):
    """Up to eight values, evenly spread."""
    flat = tensor.detach().flatten()
    return short(flat[:: max(1, flat.numel() // 8)][:8])


def load(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")


def golden(folder, ids, trained):
    model = load(folder)
    logits = model(input_ids=ids).logits
    log_probs = torch.log_softmax(logits[:, :-1], -1).gather(-1, ids[:, 1:, None])[..., 0]
    loss = -(log_probs * trained[:, :-1]).sum() / trained.sum()
    loss.backward()
    parameters = dict(model.named_parameters())
    gradients = {name: short(parameter.grad.norm())[0] for name, parameter in parameters.items()}
    groups = [
        dict(params=[p for p in parameters.values() if p.ndim == 2], weight_decay=DECAY),
        dict(params=[p for p in parameters.values() if p.ndim != 2], weight_decay=0.0),
    ]
    before = {name: parameter.detach().clone() for name, parameter in parameters.items()}
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    torch.optim.AdamW(groups, lr=LEARNING_RATE).step()
    return {
        "ids": ids.tolist(),
        "trained": trained.int().tolist(),
        "learningRate": LEARNING_RATE,
        "weightDecay": DECAY,
        "logits": [short(logits[0, 0]), short(logits[0, -1]), short(logits[1, LENGTHS[1] - 1])],
        "logProbs": [short(row) for row in log_probs],
        "loss": short(loss)[0],
        "gradientNorm": short(norm)[0],
        "gradientNorms": gradients,
        "after": {name: some(parameter) for name, parameter in parameters.items()},
        "updateNorms": {name: short((parameter - before[name]).norm())[0] for name, parameter in parameters.items()},
    }


def make():
    for number, (name, (config, dtype, shard)) in enumerate(CASES.items()):
        generator = torch.Generator().manual_seed(1000 + number)
        folder = HERE / "cases" / name
        shutil.rmtree(folder, ignore_errors=True)
        model = AutoModelForCausalLM.from_config(config)
        fill(model, generator)
        model.to(dtype).save_pretrained(folder, **({} if shard is None else {"max_shard_size": shard}))
        facts = golden(folder, *rows(generator, config.vocab_size))
        (folder / "golden.json").write_text(json.dumps(facts, separators=(",", ":")) + "\n")
        print(name, sum(file.stat().st_size for file in folder.iterdir()), "bytes")


def compare(model, facts):
    """Ends the program: 0 where the model's logits are those of the golden."""
    logits = model(input_ids=torch.tensor(facts["ids"])).logits
    got = torch.stack([logits[0, 0], logits[0, -1], logits[1, LENGTHS[1] - 1]])
    worst = (got - torch.tensor(facts["logits"])).abs().max().item()
    print(f"largest difference {worst:.2e}")
    sys.exit(0 if worst < 1e-5 else 1)


def check(folder, case):
    facts = json.loads((HERE / "cases" / case / "golden.json").read_text())
    compare(load(folder), facts)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    if sys.argv[1:2] == ["check"]:
        check(sys.argv[2], sys.argv[3])
    make()

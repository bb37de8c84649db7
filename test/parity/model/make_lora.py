# Makes lora/: adapters in PEFT's layout for two of the models in cases/, and golden.json with what PyTorch computes with them: logits,
# log-probs, gradients of the adapter, and its values after one clipped AdamW step. The adapter is written out here as its formula says,
# y = x W^T + bias + scale (x A^T) B^T, on transformers' own models. Same versions as make.py, same bytes:
#   python make_lora.py                     writes lora/
#   python make_lora.py check FOLDER CASE   PEFT (pip install peft) loads an adapter that Cohort saved and compares its logits with the case's
import json
import math
import shutil
import sys

import torch
from safetensors.torch import save_file

from make import DECAY, HERE, LEARNING_RATE, LENGTHS, compare, load, rows, short, some

ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
# name: model of cases/, rank, alpha, rank-stabilised, targets
CASES = {
    "qwen2-qv": ("qwen2", 4, 8, False, ["q_proj", "v_proj"]),
    "llama-all-rslora": ("llama", 3, 6, True, ALL),
    "llama-bias-mlp": ("llama-bias-sharded", 2, 8, False, ["k_proj", "o_proj", "up_proj", "down_proj"]),
}


class Adapted(torch.nn.Module):
    def __init__(self, base, rank, scale, generator):
        super().__init__()
        self.base, self.scale = base, scale
        self.a = torch.nn.Parameter(torch.randn(rank, base.in_features, generator=generator) / math.sqrt(base.in_features))
        self.b = torch.nn.Parameter(torch.randn(base.out_features, rank, generator=generator) * 0.3)

    def forward(self, x):
        return self.base(x) + self.scale * ((x @ self.a.T) @ self.b.T)


def adapt(model, rank, scale, targets, generator):
    """Puts adapters in; gives their matrices by PEFT's names."""
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    matrices = {}
    for name, module in sorted(model.named_modules()):
        for child, linear in list(module.named_children()):
            if child not in targets or not isinstance(linear, torch.nn.Linear):
                continue
            adapted = Adapted(linear, rank, scale, generator)
            setattr(module, child, adapted)
            matrices[f"base_model.model.{name}.{child}.lora_A.weight"] = adapted.a
            matrices[f"base_model.model.{name}.{child}.lora_B.weight"] = adapted.b
    return matrices


def make():
    shutil.rmtree(HERE / "lora", ignore_errors=True)
    for number, (name, (base, rank, alpha, stabilised, targets)) in enumerate(CASES.items()):
        generator = torch.Generator().manual_seed(2000 + number)
        model = load(HERE / "cases" / base)
        matrices = adapt(model, rank, alpha / (math.sqrt(rank) if stabilised else rank), targets, generator)
        folder = HERE / "lora" / name
        folder.mkdir(parents=True)
        save_file({key: value.detach().contiguous() for key, value in matrices.items()}, folder / "adapter_model.safetensors", metadata={"format": "pt"})
        config = dict(peft_type="LORA", task_type="CAUSAL_LM", r=rank, lora_alpha=alpha, use_rslora=stabilised, target_modules=targets, bias="none", lora_dropout=0.0)
        (folder / "adapter_config.json").write_text(json.dumps({**config, "base_model_name_or_path": f"../../cases/{base}"}, indent=2) + "\n")
        ids, trained = rows(generator, model.config.vocab_size)
        logits = model(input_ids=ids).logits
        log_probs = torch.log_softmax(logits[:, :-1], -1).gather(-1, ids[:, 1:, None])[..., 0]
        loss = -(log_probs * trained[:, :-1]).sum() / trained.sum()
        loss.backward()
        gradients = {key: short(value.grad.norm())[0] for key, value in matrices.items()}
        before = {key: value.detach().clone() for key, value in matrices.items()}
        norm = torch.nn.utils.clip_grad_norm_(list(matrices.values()), 1.0)
        torch.optim.AdamW(list(matrices.values()), lr=LEARNING_RATE, weight_decay=DECAY).step()
        facts = {
            "model": base,
            "ids": ids.tolist(),
            "trained": trained.int().tolist(),
            "learningRate": LEARNING_RATE,
            "weightDecay": DECAY,
            "logits": [short(logits[0, 0]), short(logits[0, -1]), short(logits[1, LENGTHS[1] - 1])],
            "logProbs": [short(row) for row in log_probs],
            "loss": short(loss)[0],
            "gradientNorm": short(norm)[0],
            "gradientNorms": gradients,
            "after": {key: some(value) for key, value in matrices.items()},
            "updateNorms": {key: short((value - before[key]).norm())[0] for key, value in matrices.items()},
        }
        (folder / "golden.json").write_text(json.dumps(facts, separators=(",", ":")) + "\n")
        print(name, sum(file.stat().st_size for file in folder.iterdir()), "bytes")


def check(folder, case):
    from peft import PeftModel

    facts = json.loads((HERE / "lora" / case / "golden.json").read_text())
    compare(PeftModel.from_pretrained(load(HERE / "cases" / facts["model"]), folder), facts)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    if sys.argv[1:2] == ["check"]:
        check(sys.argv[2], sys.argv[3])
    make()

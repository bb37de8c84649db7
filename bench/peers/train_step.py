"""One training step of PyTorch per request: forward, clipped surrogate, backward, clipping, AdamW. A JSON line in, a JSON line out."""
import json
import sys
import time

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

models = {}


def model_of(request):
    key = json.dumps([request["config"], request["dtype"]])
    if key not in models:
        torch.manual_seed(0)
        model = Qwen3ForCausalLM(Qwen3Config(**request["config"])).float().train()
        models[key] = (model, torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=True))
    return models[key]


for line in sys.stdin:
    request = json.loads(line)
    torch.set_num_threads(request["threads"])
    model, optimizer = model_of(request)
    rows, length = request["rows"], request["length"]
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(0, request["config"]["vocab_size"], (rows, length), generator=generator)
    advantages = torch.randn(rows, 1, generator=generator)
    seconds = []
    for _ in range(request["steps"]):
        start = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=request["dtype"] == "bf16"):
            logits = model(input_ids=ids).logits
        log_probs = torch.log_softmax(logits[:, :-1].float(), -1).gather(-1, ids[:, 1:, None]).squeeze(-1)
        ratio = (log_probs - log_probs.detach()).exp()
        loss = -torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        loss.item()
        seconds.append(time.perf_counter() - start)
    seconds.sort()
    print(json.dumps({"tokensPerSecond": rows * length / seconds[len(seconds) // 2], "best": rows * length / seconds[0]}), flush=True)

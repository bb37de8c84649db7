"""Sampling with transformers' generate, for bench/decode.ts: reads one JSON request per line, answers tokens a second.

The model has random weights of the shape that the request names; log-probs of the sampled tokens are computed, as a rollout needs them.
"""
import json
import sys
import time

import torch
from transformers import AutoConfig, AutoModelForCausalLM


def build(config, dtype):
    model_type = config.pop("model_type")
    shape = AutoConfig.for_model(model_type, **config)
    return AutoModelForCausalLM.from_config(shape).to(getattr(torch, dtype)).eval()


def run(model, request):
    prompts = torch.randint(0, request["config"]["vocab_size"], (request["batch"], request["promptTokens"]))
    tokens = request["tokens"]
    start = time.perf_counter()
    with torch.no_grad():
        out = model.generate(
            prompts,
            attention_mask=torch.ones_like(prompts),
            do_sample=True,
            temperature=1.0,
            top_k=0,
            max_new_tokens=tokens,
            min_new_tokens=tokens,
            pad_token_id=0,
            eos_token_id=None,
            return_dict_in_generate=True,
            output_logits=True,
        )
        ids = out.sequences[:, prompts.shape[1]:]
        torch.stack(out.logits, 1).float().log_softmax(-1).gather(-1, ids.unsqueeze(-1))
    seconds = time.perf_counter() - start
    if ids.shape[1] != tokens:
        raise RuntimeError(f"{ids.shape[1]} tokens instead of {tokens}")
    return request["batch"] * tokens / seconds


def main():
    models = {}
    for line in sys.stdin:
        request = json.loads(line)
        torch.set_num_threads(request["threads"])
        key = json.dumps([request["config"], request["dtype"]], sort_keys=True)
        if key not in models:
            models[key] = build(dict(request["config"]), request["dtype"])
        print(json.dumps({"tokensPerSecond": run(models[key], request)}), flush=True)


if __name__ == "__main__":
    main()

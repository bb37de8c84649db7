"""TRL's GRPOTrainer on CPU, for bench/loop.ts: reads one JSON request per line, answers samples a second of its steady state.

Model folder, prompts, reward, group size, lengths and optimizer are those of the run beside it.
"""
import json
import os
import sys
import tempfile
import time

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer


class Clock(TrainerCallback):
    def __init__(self):
        self.ends = []

    def on_step_end(self, args, state, control, **kwargs):
        self.ends.append(time.perf_counter())


def reward(completions, completion_ids, answer, **kwargs):
    """As rewardOf in bench/loop.ts: the right text, else a little for the parity of the first token, so that groups differ."""
    return [1.0 if text.strip() == right else 0.1 * (ids[0] % 2 if len(ids) > 0 else 0) for text, ids, right in zip(completions, completion_ids, answer)]


def run(request):
    torch.set_num_threads(request["threads"])
    model = AutoModelForCausalLM.from_pretrained(request["modelFolder"], dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(request["modelFolder"])
    warm_up, steps, completions = request["warmUp"], request["steps"], request["completions"]
    clock = Clock()
    with tempfile.TemporaryDirectory() as out:
        config = GRPOConfig(
            output_dir=out,
            use_cpu=True,
            bf16=request["bf16"],
            gradient_checkpointing=False,
            per_device_train_batch_size=completions,
            gradient_accumulation_steps=1,
            num_generations=request["groupSize"],
            max_completion_length=request["maxTokens"],
            temperature=1.0,
            beta=0.0,
            learning_rate=request["learningRate"],
            max_steps=warm_up + steps,
            save_strategy="no",
            report_to=[],
            logging_steps=1000,
            disable_tqdm=True,
            seed=request["seed"],
        )
        trainer = GRPOTrainer(model=model, args=config, processing_class=tokenizer, train_dataset=Dataset.from_list(request["prompts"]), reward_funcs=reward, callbacks=[clock])
        trainer.train()
    seconds = clock.ends[-1] - clock.ends[warm_up - 1]
    return {"samplesPerSecond": completions * steps / seconds}


def main():
    answers = os.fdopen(os.dup(1), "w")
    # What the trainer prints must not look like an answer.
    os.dup2(2, 1)
    for line in sys.stdin:
        answers.write(json.dumps(run(json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()

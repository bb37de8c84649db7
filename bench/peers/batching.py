"""The peers of bench/batching.ts. Reads one JSON line from stdin, writes one to stdout.

`budget`: TokenBudgetBatcher of TRL 1.14.2 (COHORT_BENCH_TRL_1_14: a folder that pip installed it into with --target --no-deps).
`shared`: TokenBudgetBatcher of TRL 1.16 with its prefix-trie rows.
"""

import json
import os
import sys
import time

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
task = json.loads(sys.stdin.readline())
if task["task"] == "budget":
    sys.path.insert(0, os.environ["COHORT_BENCH_TRL_1_14"])

import torch  # noqa: E402
from trl.experimental.async_grpo.async_grpo_trainer import TokenBudgetBatcher  # noqa: E402

torch.set_num_threads(1)


def samples():
    if task["task"] == "budget":
        # A range has a length and no contents: all that this batcher reads.
        return [{"input_ids": range(length)} for length in task["lengths"]]
    found = []
    for group in task["groups"]:
        for completion in range(group["completions"]):
            ids = [group["id"] * 7 % 50000] * 1 + list(range(group["prompt"] - 1)) + [completion] * group["length"]
            mask = [0] * group["prompt"] + [1] * group["length"]
            found.append({"input_ids": torch.tensor(ids), "completion_mask": torch.tensor(mask), "group_id": group["id"]})
    return found


best = float("inf")
for _ in range(task["repeats"]):
    source = samples()
    start = time.perf_counter()
    batches = list(TokenBudgetBatcher(source, task["workers"], task["tokenBudget"], {"batch/dropped_oversize_total": []}))
    best = min(best, time.perf_counter() - start)

if task["task"] == "budget":
    loads = [[sum(len(s["input_ids"]) ** 2 for s in row) for row in rows] for rows in batches]
    placed = sum(len(row) for rows in batches for row in rows)
    tokens = sum(len(s["input_ids"]) for rows in batches for row in rows for s in row)
else:
    loads = [[row.load for row in rows] for rows in batches]
    placed = sum(len(row.samples) for rows in batches for row in rows)
    tokens = sum(len(row.tokens) for rows in batches for row in rows)
imbalance = sum(max(row) * len(row) / sum(row) for row in loads) / len(loads)
print(json.dumps({"seconds": best, "imbalance": imbalance, "placed": placed, "tokens": tokens, "rows": sum(map(len, batches))}))

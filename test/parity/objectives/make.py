"""Goldens of the policy objectives and advantages, computed in float64 by TRL's own GRPOTrainer loss and by PyTorch.

    python make.py            # writes goldens.json beside this file; torch 2.13, trl 1.16
    python make.py --check    # fails when it would write anything else

Every objective that TRL has goes through `GRPOTrainer._compute_loss` itself, with log-probs and entropies of given logits fed in, so what is
compared is TRL's code and not a second reading of it; gradients are those of the logits. What TRL lacks (gspo_token, KL k1 and k2, the
geometric mask) is written in PyTorch here, and where TRL is wrong the right value is derived by hand, with a note (`derived`).
Values are rounded to 8 digits: regeneration is byte-identical.
"""

import collections
import json
import math
import pathlib
import random
import sys
import types

import torch
from trl.trainer.grpo_trainer import GRPOTrainer, nanstd

ROWS, LENGTH, VOCABULARY = 6, 4, 3
GROUP = 3
EPSILON_LOW, EPSILON_HIGH = 0.2, 0.28


def rounded(value):
    if isinstance(value, torch.Tensor):
        return [rounded(item) for item in value.detach().flatten().tolist()]
    return None if math.isnan(value) else float(f"{value:.8g}")


def make_inputs(seed):
    """One micro-batch: every row trains at least one token, masks have holes, as tool turns leave them."""
    rng = random.Random(seed)
    grid = lambda draw: [[round(draw(), 4) for _ in range(LENGTH)] for _ in range(ROWS)]
    logits = [[[round(rng.gauss(0, 1.5), 4) for _ in range(VOCABULARY)] for _ in range(LENGTH)] for _ in range(ROWS)]
    targets = [[rng.randrange(VOCABULARY) for _ in range(LENGTH)] for _ in range(ROWS)]
    log_probs = torch.tensor(logits, dtype=torch.float64).log_softmax(-1).gather(-1, torch.tensor(targets).unsqueeze(-1)).squeeze(-1).tolist()
    spread = [0.1, 0.4, 0.8][seed % 3]
    near = lambda source, width: [[round(min(x + rng.gauss(0, width), -0.001), 4) for x in row] for row in source]
    mask = [[1 if rng.random() < 0.75 else 0 for _ in range(LENGTH)] for _ in range(ROWS)]
    for row in mask:
        row[rng.randrange(LENGTH)] = 1
    return {
        "logits": logits,
        "targets": targets,
        "behavior": near(log_probs, spread),
        "proximal": near(log_probs, spread / 2),
        "reference": near(log_probs, 0.6),
        "advantages": [round(rng.choice([-1, 1]) * rng.uniform(0.2, 1.8), 4) for _ in range(ROWS)],
        "rewards": [[round(rng.uniform(-1, 2), 3) for _ in range(GROUP)] for _ in range(ROWS // GROUP)],
        "mask": mask,
    }


class OneProcess:
    """The accelerator of a single process."""

    num_processes = 1
    sync_gradients = True
    device = "cpu"

    def gather(self, x):
        return x

    def reduce(self, x, reduction="sum"):
        return x

    def pad_across_processes(self, x, dim=0, pad_index=0):
        return x


def tensors(spec, inputs):
    to = lambda rows: torch.tensor(rows, dtype=torch.float64)
    data = {name: to(inputs[name]) for name in ("logits", "behavior", "proximal", "reference", "advantages", "mask")}
    data["logits"].requires_grad_(True)
    log_softmax = data["logits"].log_softmax(-1)
    data["logProbs"] = log_softmax.gather(-1, torch.tensor(inputs["targets"]).unsqueeze(-1)).squeeze(-1)
    data["entropy"] = -(log_softmax.exp() * log_softmax).sum(-1)
    if "scale" in spec:
        data["advantages"] = trl_advantages(to(inputs["rewards"]), spec["scale"]).flatten()
    return data


def trl_advantages(rewards, scale):
    """GRPOTrainer's sum_then_normalize."""
    centred = rewards - rewards.nanmean(dim=1, keepdim=True)
    if scale == "none":
        return centred
    deviation = nanstd(rewards, dim=1).unsqueeze(1) if scale == "group" else nanstd(rewards)
    return centred / (deviation + 1e-4)


def correction_ratio(spec, data, old):
    """GRPOTrainer's importance ratio of the sampler correction, and the geometric mask."""
    rule = spec["correction"]
    low, high = rule.get("min", -math.inf), rule.get("max", math.inf)
    gap = (old - data["behavior"]) * data["mask"]
    if rule["mode"].startswith("sequence"):
        gap = gap.sum(-1, keepdim=True)
    if rule["mode"] == "geometric_mask":
        gap = gap.sum(-1, keepdim=True) / data["mask"].sum(-1, keepdim=True)
    ratio = gap.exp()
    inside = (ratio >= low) & (ratio <= high)
    if rule["mode"].endswith("truncate"):
        return ratio.clamp(min=rule.get("min"), max=rule.get("max"))
    return inside.double() if rule["mode"] == "geometric_mask" else ratio * inside


def by_trl(spec, inputs):
    kind = spec["kind"]
    data = tensors(spec, inputs)
    mask = data["mask"]
    level = spec.get("level", "sequence" if kind in ("gspo", "luspo") else "token")
    vespo, sapo = spec.get("vespo", {}), spec.get("sapo", {})
    corrected = "correction" in spec
    args = types.SimpleNamespace(
        use_bias_correction_kl=spec.get("klUnbiased", False),
        delta=spec.get("delta"),
        sapo_temperature_pos=sapo.get("temperaturePositive", 1.0),
        sapo_temperature_neg=sapo.get("temperatureNegative", 1.05),
        vespo_k_pos=vespo.get("kPositive", 2.0),
        vespo_lambda_pos=vespo.get("lambdaPositive", 3.0),
        vespo_k_neg=vespo.get("kNegative", 3.0),
        vespo_lambda_neg=vespo.get("lambdaNegative", 2.0),
        steps_per_generation=1,
    )
    metrics = {"train": collections.defaultdict(list)}
    trainer = types.SimpleNamespace(
        args=args,
        accelerator=OneProcess(),
        model=types.SimpleNamespace(training=True),
        loss_type={"gspo": "grpo"}.get(kind, kind),
        importance_sampling_level=level,
        epsilon_low=EPSILON_LOW,
        # TRL's epsilon_high is cispo's cap itself.
        epsilon_high=1 + EPSILON_HIGH if kind == "cispo" else EPSILON_HIGH,
        beta=spec.get("klCoefficient", 0.0),
        top_entropy_quantile=spec.get("topEntropyShare", 1.0),
        off_policy_mask_threshold=spec.get("offPolicyThreshold"),
        use_vllm=corrected,
        vllm_importance_sampling_correction=corrected,
        max_completion_length=8,
        current_gradient_accumulation_steps=1,
        aux_loss_enabled=False,
        _entropy_bonus_enabled="entropyCoefficient" in spec,
        entropy_coef=spec.get("entropyCoefficient", 0.0),
        use_adaptive_entropy=False,
        _metrics=metrics,
        get_off_policy_mask=GRPOTrainer.get_off_policy_mask,
        get_gamma_weights=GRPOTrainer.get_gamma_weights,
        _get_per_token_logps_and_entropies=lambda *a, **k: (data["logProbs"], data["entropy"], None),
    )
    trainer.get_high_entropy_mask = types.MethodType(_high_entropy_mask, trainer)
    old = data["proximal"] if corrected else data["behavior"]
    ids = torch.zeros(ROWS, LENGTH, dtype=torch.long)
    batch = {
        "prompt_ids": ids[:, :0],
        "prompt_mask": ids[:, :0],
        "completion_ids": ids,
        "completion_mask": mask,
        "advantages": data["advantages"],
        "old_per_token_logps": old,
        "sampling_per_token_logps": data["behavior"],
        "ref_per_token_logps": data["reference"],
        "num_items_in_batch": mask.sum(),
    }
    if corrected:
        batch["importance_sampling_ratio"] = correction_ratio(spec, data, old)
    loss = GRPOTrainer._compute_loss(trainer, None, batch)
    return loss, data, {name: values[0] for name, values in metrics["train"].items()}


# TRL computes the quantile in float32, ours is float64: keep TRL's rule, in the dtype of the inputs.
def _high_entropy_mask(self, entropies, mask, threshold):
    limit = torch.quantile(entropies[mask.bool()], threshold)
    return ((entropies * mask) >= limit) & mask.bool()


def by_torch(spec, inputs):
    """What TRL does not have."""
    data = tensors(spec, inputs)
    mask, advantages = data["mask"], data["advantages"].unsqueeze(1)
    log_probs = data["logProbs"]
    corrected = "correction" in spec
    old = data["proximal"] if corrected else data["behavior"]
    log_ratio = log_probs - old
    if spec["kind"] == "gspo_token":
        mean = (log_ratio * mask).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True)
        log_ratio = mean.detach() + log_probs - log_probs.detach()
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - EPSILON_LOW, 1 + EPSILON_HIGH)
    loss = -torch.min(ratio * advantages, clipped * advantages)
    if corrected:
        loss = loss * correction_ratio(spec, data, old)
    if "klCoefficient" in spec:
        x = data["reference"] - log_probs
        kl = {"k1": -x, "k2": x**2 / 2, "k3": x.exp() - x - 1}[spec["klEstimator"]]
        if spec.get("klUnbiased"):
            kl = kl * ratio
        loss = loss + spec["klCoefficient"] * kl
    if spec["kind"] in ("grpo", "gspo_token"):
        return ((loss * mask).sum(-1) / mask.sum(-1)).mean(), data, {}
    return (loss * mask).sum() / mask.sum(), data, {}


KINDS = ["grpo", "dapo", "bnpo", "dr_grpo", "cispo", "gspo", "sapo", "luspo", "vespo"]
CORRECTIONS = [
    {"mode": "token_truncate", "max": 1.2},
    {"mode": "token_truncate", "min": 0.9, "max": 1.1},
    {"mode": "token_mask", "min": 0.8, "max": 1.25},
    {"mode": "sequence_truncate", "max": 1.5},
    {"mode": "sequence_mask", "min": 0.7, "max": 1.4},
]


def crossed():
    """Objective x level x correction, with scale and beta taken in turns so that every pair of values meets."""
    kinds = ["grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo"]
    corrections = [None, {"mode": "token_truncate", "min": 0.7, "max": 1.3}, {"mode": "sequence_mask", "min": 0.5, "max": 2}]
    turn = 0
    for kind in kinds:
        for level in ("token", "sequence"):
            for correction in corrections:
                spec = {"kind": kind, "level": level, "scale": ("group", "batch", "none")[turn % 3]}
                if correction:
                    spec["correction"] = correction
                if turn // 3 % 2:
                    spec["klCoefficient"] = 0.05
                yield "trl", turn % 3, spec
                turn += 1
            turn += 1


def configurations():
    yield from crossed()
    for kind in KINDS:
        for seed in range(3):
            yield "trl", seed, {"kind": kind}
    for seed in range(3):
        yield "torch", seed, {"kind": "gspo_token"}
    for kind in ("grpo", "dapo", "luspo"):
        yield "trl", 2, {"kind": kind, "delta": 1.6}
    for kind in ("grpo", "dapo", "dr_grpo", "gspo"):
        yield "trl", 1, {"kind": kind, "klCoefficient": 0.04}
        yield "trl", 2, {"kind": kind, "klCoefficient": 0.3, "klUnbiased": True}
    for estimator in ("k1", "k2"):
        yield "torch", 1, {"kind": "dapo", "klCoefficient": 0.1, "klEstimator": estimator}
        yield "torch", 2, {"kind": "grpo", "klCoefficient": 0.1, "klEstimator": estimator, "klUnbiased": True}
    for rule in CORRECTIONS:
        yield "trl", 1, {"kind": "dapo", "correction": rule}
        yield "trl", 2, {"kind": "grpo", "correction": rule}
    for rule in CORRECTIONS[:3]:
        yield "trl", 2, {"kind": "vespo", "correction": rule}
    for seed in range(3):
        yield "torch", seed, {"kind": "dapo", "correction": {"mode": "geometric_mask", "min": 0.95, "max": 1.05}}
    for kind in ("dapo", "grpo", "dr_grpo"):
        yield "trl", 0, {"kind": kind, "entropyCoefficient": 0.02}
        yield "trl", 1, {"kind": kind, "topEntropyShare": 0.4}
        yield "trl", 2, {"kind": kind, "offPolicyThreshold": 0.02}
    yield "trl", 1, {"kind": "dapo", "topEntropyShare": 0.4, "entropyCoefficient": 0.05}
    yield "trl", 2, {"kind": "sapo", "sapo": {"temperaturePositive": 2.0, "temperatureNegative": 3.0}}
    yield "trl", 1, {"kind": "vespo", "vespo": {"kPositive": 1.0, "lambdaPositive": 1.5, "kNegative": 2.0, "lambdaNegative": 1.0}}
    yield "trl", 2, {
        "kind": "dapo", "delta": 1.7, "klCoefficient": 0.1, "klUnbiased": True, "entropyCoefficient": 0.01,
        "topEntropyShare": 0.6, "offPolicyThreshold": 0.05, "correction": {"mode": "token_truncate", "max": 1.5},
    }


METRICS = {"clip_ratio/low_mean": "clip/low", "clip_ratio/high_mean": "clip/high", "clip_ratio/region_mean": "clip/region",
           "clip_ratio/low_min": "clip/low_min", "clip_ratio/high_max": "clip/high_max", "cispo_clip_ratio": "clip/high", "kl": "kl/reference", "entropy": "entropy"}


def objective_case(source, seed, spec, inputs):
    loss, data, metrics = (by_trl if source == "trl" else by_torch)(spec, inputs)
    loss.backward()
    mask = data["mask"]
    tokens, kind = int(mask.sum()), spec["kind"]
    normalizer = tokens
    if kind in ("grpo", "gspo", "gspo_token", "sapo", "luspo"):
        normalizer = ROWS
    elif kind == "dr_grpo":
        normalizer = ROWS * 8
    case = {"source": source, "inputs": seed, "spec": spec, "normalizer": normalizer, "loss": rounded(loss.item()), "gradient": rounded(data["logits"].grad)}
    # TRL averages sequence-level clip shares over sequences, ours over tokens: not comparable there.
    if kind not in ("gspo", "luspo", "gspo_token") and spec.get("level") != "sequence":
        # With delta TRL counts clips after that bound; the token ratios that count are the same as delta > 1 + epsilon.
        case["metrics"] = {METRICS[name]: rounded(value) for name, value in metrics.items() if name in METRICS}
    return case


def advantage_cases():
    rng = random.Random(7)
    nan = math.nan
    groups = [[round(rng.uniform(-1, 2), 3) for _ in range(4)] for _ in range(3)] + [[1.0, 0.0, 0.0, 1.0]]
    holes = [row[:] for row in groups]
    holes[0][2] = holes[1][0] = nan
    for rewards in (groups, holes):
        x = torch.tensor(rewards, dtype=torch.float64)
        mean = x.nanmean(dim=1, keepdim=True)
        group_std = nanstd(x, dim=1).unsqueeze(1)
        population = torch.stack([row[~row.isnan()].std(correction=0) for row in x]).unsqueeze(1)
        rules = [
            ("group", "sample", 1e-4, (x - mean) / (group_std + 1e-4)),
            ("group", "population", 1e-8, (x - mean) / (population + 1e-8)),
            ("batch", "sample", 1e-4, (x - mean) / (nanstd(x) + 1e-4)),
            ("none", "sample", 1e-4, x - mean),
        ]
        for scale, deviation, epsilon, advantages in rules:
            yield {"rewards": [[rounded(v) for v in row] for row in rewards], "scale": scale, "standardDeviation": deviation, "epsilon": epsilon,
                   "advantages": [[rounded(v) for v in row] for row in advantages.tolist()]}


def estimator_cases():
    """Estimators that GRPOTrainer lacks, in PyTorch: RLOO as TRL's RLOOTrainer has it, REINFORCE++ with and without a group baseline."""
    rng = random.Random(11)
    rewards = torch.tensor([[round(rng.uniform(-1, 2), 3) for _ in range(4)] for _ in range(3)], dtype=torch.float64)
    others = (rewards.sum(dim=1, keepdim=True) - rewards) / (rewards.shape[1] - 1)
    centred = rewards - rewards.mean(dim=1, keepdim=True)
    batch = lambda x: (x - x.mean()) / (x.std(correction=0) + 1e-8)
    for name, advantages in (("rloo", rewards - others), ("reinforce++", batch(rewards)), ("reinforce++baseline", batch(centred))):
        yield {"advantage": name, "rewards": rewards.tolist(), "advantages": [[rounded(v) for v in row] for row in advantages.tolist()]}


def gdpo_case():
    """GRPOTrainer's normalize_then_sum over two rewards of very different scale, with one score missing."""
    rng = random.Random(9)
    scores = [[[round(rng.uniform(0, 1), 3), round(rng.uniform(-50, 50), 2)] for _ in range(4)] for _ in range(3)]
    scores[1][2][0] = math.nan
    weights = torch.tensor([1.0, 0.5], dtype=torch.float64)
    grouped = torch.tensor(scores, dtype=torch.float64)
    normalized = (grouped - grouped.nanmean(dim=1, keepdim=True)) / (nanstd(grouped, dim=1, keepdim=True) + 1e-4)
    sums = (normalized.view(-1, 2) * weights).nansum(dim=1)
    advantages = ((sums - sums.nanmean()) / (nanstd(sums) + 1e-4)).view(3, 4)
    return {"scores": [[[rounded(v) for v in member] for member in group] for group in scores], "weights": weights.tolist(),
            "advantages": [[rounded(v) for v in row] for row in advantages.tolist()]}


def derived():
    """Where TRL is wrong: values derived by hand."""
    return {
        "window": {
            "note": "The asynchronous trainer divides each micro-batch by its own tokens and reports 1.25; the mean over the step's tokens is (100 * 2 + 900 * 0.5) / 1000.",
            "microBatches": [{"tokens": 100, "loss": 2.0}, {"tokens": 900, "loss": 0.5}],
            "loss": 0.65,
        },
        "residue": {
            "note": "Rewards equal but for float noise: dividing by a deviation of 1e-7 plus 1e-8 gives TRL's asynchronous trainer advantages of 0.8 and more. They teach nothing.",
            "rewards": [1.0, 1.0 + 1e-7, 1.0 - 1e-7, 1.0],
            "advantages": [0, 0, 0, 0],
        },
        "emptyRow": {
            "note": "A completion without a trained token counts as a sequence in TRL's grpo mean, which halves the loss of the other. Here it is not there: -1 * 1.5 over one completion.",
            "advantages": [1.5, -1.0],
            "mask": [[1, 1], [0, 0]],
            "loss": -1.5,
        },
    }


def main():
    torch.set_num_threads(1)
    inputs = [make_inputs(seed) for seed in range(3)]
    cases = [objective_case(source, seed, spec, inputs[seed]) for source, seed, spec in configurations()]
    compact = lambda item: json.dumps(item, separators=(",", ":"))
    lines = lambda items: ",\n".join(map(compact, items))
    text = (
        f'{{"rows":{ROWS},"length":{LENGTH},"vocabulary":{VOCABULARY},"epsilonLow":{EPSILON_LOW},"epsilonHigh":{EPSILON_HIGH},\n'
        f'"inputs":[\n{lines(inputs)}\n],\n"cases":[\n{lines(cases)}\n],\n'
        f'"advantages":[\n{lines(advantage_cases())}\n],\n"estimators":[\n{lines(estimator_cases())}\n],\n"gdpo":{compact(gdpo_case())},\n"derived":{compact(derived())}}}\n'
    )
    path = pathlib.Path(__file__).with_name("goldens.json")
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if path.read_text() == text else "goldens.json is not what this script writes")
    path.write_text(text)
    print(f"{len(cases)} objective cases, {len(text)} bytes")


if __name__ == "__main__":
    main()

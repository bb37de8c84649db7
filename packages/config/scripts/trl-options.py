"""Writes src/trl/options.json: every option of TRL's AsyncGRPOConfig and GRPOConfig with its default.

    python scripts/trl-options.py    # trl 1.16, transformers 5

`extra` are options of other releases of the two: files that users bring may hold them.
"""

import dataclasses
import json
import pathlib

import trl
from trl import GRPOConfig
from trl.experimental.async_grpo import AsyncGRPOConfig

EXTRA = {
    "warmup_ratio": None,
    "logging_dir": None,
    "router_aux_loss_coef": 0.001,
    "max_prompt_length": 512,
    "packing": None,
}


def options(config):
    found = {}
    for field in dataclasses.fields(config):
        default = field.default
        if default is dataclasses.MISSING:
            default = field.default_factory() if field.default_factory is not dataclasses.MISSING else None
        default = getattr(default, "value", default)
        found[field.name] = default if default is None or isinstance(default, (bool, int, float, str, list, dict)) else str(default)
    return found


both = {"async": options(AsyncGRPOConfig), "grpo": options(GRPOConfig)}
extra = {name: default for name, default in EXTRA.items() if name not in both["async"] and name not in both["grpo"]}
out = pathlib.Path(__file__).parent.parent / "src/trl/options.json"
out.parent.mkdir(exist_ok=True)
out.write_text(json.dumps({"version": trl.__version__, **both, "extra": extra}, indent=2, sort_keys=True) + "\n")

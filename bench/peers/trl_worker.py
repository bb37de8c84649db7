"""The rollout loop of TRL's AsyncGRPOTrainer, for bench/rollout.ts: reads one JSON request per line, answers the processor time of a turn, and what the
generator costs of it by itself.

Tokenizer, parser and generator are scripted as in bench/rollout.ts; the loop, its tool calls, reconciliation, scoring and queue are TRL's own.
"""
import asyncio
import json
import logging
import multiprocessing as mp
import os
import queue
import sys
import time

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from accelerate import PartialState
from datasets import Dataset
from trl.experimental.async_grpo import async_rollout_worker as worker

PartialState(cpu=True)
logging.disable(logging.CRITICAL)
STOP, CALL, TOOL = 1, 2, [ord(c) for c in "<tool>"]


class Tokenizer:
    """A character is a token; nothing is cached, nothing is slow."""

    response_template = "scripted"
    pad_token_id = 0

    def apply_chat_template(self, messages, **kwargs):
        ids = []
        for message in messages:
            calls = "".join(call["function"]["name"] for call in message.get("tool_calls") or [])
            ids.extend(ord(c) for c in f"<{message['role']}>{message['content']}{calls}")
            ids.append(STOP)
        ids.extend(ord(c) for c in "<assistant>")
        return ids


def parse_response(tokenizer, ids, **kwargs):
    if ids[0] == CALL:
        return {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "look", "arguments": {"at": 1}}}]}
    return {"role": "assistant", "content": "done"}


worker.parse_response = parse_response
worker.is_chat_template_prefix_preserving = lambda tokenizer: True


def look(at: int) -> str:
    """Looks.

    Args:
        at: Where.
    """
    return "seen"


class Rewards:
    __name__ = "count"

    def __init__(self):
        self.given = 0

    def __call__(self, completions, **kwargs):
        self.given += len(completions)
        return [float((self.given + i) % 3) for i in range(len(completions))]


class Loop(worker._AsyncRolloutLoop):
    def script(self, request):
        self.request = request
        self.scored = 0
        self.prompts = []

    async def _generate_one_turn(self, prompt_ids):
        length = self.request["answerTokens"]
        if len(self.prompts) < self.request["turnsPerEpisode"] and len(prompt_ids) > (len(self.prompts[-1]) if self.prompts else 0) + length:
            self.prompts.append(prompt_ids)
        await asyncio.sleep(self.request["generateMs"] / 1000)
        results = sum(1 for at in range(len(prompt_ids)) if prompt_ids[at] == TOOL[0] and prompt_ids[at : at + len(TOOL)] == TOOL)
        ids = [97] * length
        if results < self.request["turnsPerEpisode"] - 1:
            ids[0] = CALL
        ids[-1] = STOP
        return ids, [-0.5] * length

    async def generate_alone(self):
        """The same requests without the loop around them."""
        left = self.request["episodes"]

        async def ask():
            nonlocal left
            while left > 0:
                left -= 1
                for prompt_ids in self.prompts:
                    await self._generate_one_turn(prompt_ids)

        await asyncio.gather(*(ask() for _ in range(self.request["inFlight"])))

    async def _score_group(self, group):
        samples = await super()._score_group(group)
        self.scored += len(group.completions)
        if self.scored >= self.request["episodes"]:
            self._stop_event.set()
        return samples


def run(request):
    groups = request["episodes"] // request["groupSize"]
    rows = [{"prompt": [{"role": "user", "content": f"question {i}: what is seen when one looks twice?"}]} for i in range(groups)]
    loop = Loop(
        model_name="policy", dataset=Dataset.from_list(rows), reward_funcs=[Rewards()], processing_class=Tokenizer(), eos_token_ids=[STOP],
        rollout_buffer=queue.Queue(), model_version_value=mp.Value("i", 0), heartbeat_value=mp.Value("d", 0.0), failed_event=mp.Event(),
        exception_info_queue=queue.Queue(maxsize=1), metrics_queue=queue.Queue(), tools=[look], num_generations=request["groupSize"],
        max_inflight_tasks=request["inFlight"], max_tokens=request["answerTokens"],
    )
    loop.script(request)
    begin = time.process_time()
    loop.run()
    spent = time.process_time() - begin
    begin = time.process_time()
    asyncio.run(loop.generate_alone())
    alone = time.process_time() - begin
    turns = request["turnsPerEpisode"]
    return {"microsPerTurn": spent * 1e6 / (loop.scored * turns), "generatorMicrosPerTurn": alone * 1e6 / (request["episodes"] * turns)}


for line in sys.stdin:
    print(json.dumps(run(json.loads(line))), flush=True)

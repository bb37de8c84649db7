// The text that `cohort init` writes.

export const starterConfig = `# A run of Cohort. Every setting: cohort config show FILE; what each takes: cohort config schema.
name = "run"
runDir = "runs"

[model]
path = "models/my-model"             # folder in Hugging Face layout: config.json, tokenizer.json, *.safetensors

[data]
source = "prompts.jsonl"             # one row a line, with the column "prompt": text, or a list of chat messages
maxPromptTokens = 512

[[rewards]]
use = "reward-math"                  # 1 when the final answer equals the column "answer"; or a module: "./rewards.ts#mine"

[rollout]
groupSize = 8                        # completions of each prompt, judged against each other
maxCompletionTokens = 512
temperature = 1.0

[staleness]
maxSteps = 4                         # optimizer steps a sample may be behind; 0 is synchronous

[train]
steps = 100
completionsPerStep = 64              # a multiple of rollout.groupSize
learningRate = 1e-6
checkpointEverySteps = 50

[inference]
kind = "embedded"                    # or "vllm" or "sglang", with urls = ["http://localhost:8000"]
`

// Names of settings in other trainers, so that a config brought from one is answered with the name used here.

/** Where a setting is found here, and what differs. */
export interface ForeignName {
  /** Path here; undefined where there is no such setting. */
  readonly path?: string
  readonly note?: string
}

const ms = "in milliseconds here"
const product = "train.completionsPerStep counts the completions of a whole optimizer step; micro-batches follow train.tokenBudget"

/** Keyed by the name without case, underscores and dashes. */
export const foreignNames: ReadonlyMap<string, ForeignName> = new Map<string, ForeignName>([
  ["numgenerations", { path: "rollout.groupSize" }],
  ["groupn", { path: "rollout.groupSize" }],
  ["maxcompletionlength", { path: "rollout.maxCompletionTokens" }],
  ["maxtokens", { path: "rollout.maxCompletionTokens" }],
  ["maxpromptlength", { path: "data.maxPromptTokens" }],
  ["maxinflighttasks", { path: "rollout.maxInflightGroups", note: "counted in groups here" }],
  ["queuemaxsize", { path: "rollout.queueGroups", note: "counted in groups here" }],
  ["heartbeatstaleafters", { path: "rollout.heartbeatStaleMs", note: ms }],
  ["maxtoolcallingiterations", { path: "rollout.maxTurns", note: "counted in turns of the model here, one more" }],
  ["chattemplatekwargs", { path: "rollout.chatTemplateArgs" }],
  ["maxstaleness", { path: "staleness.maxSteps", note: "counted in optimizer steps here" }],
  ["maxoffpolicysteps", { path: "staleness.maxSteps" }],
  ["perdevicetrainbatchsize", { path: "train.completionsPerStep", note: product }],
  ["generationbatchsize", { path: "train.completionsPerStep", note: product }],
  ["batchsize", { path: "train.completionsPerStep", note: product }],
  ["gradientaccumulationsteps", { note: product }],
  ["stepspergeneration", { note: product }],
  ["lr", { path: "train.learningRate" }],
  ["lrschedulertype", { path: "train.schedule" }],
  ["adambeta1", { path: "train.beta1" }],
  ["adambeta2", { path: "train.beta2" }],
  ["numiterations", { path: "train.iterations" }],
  ["savesteps", { path: "train.checkpointEverySteps" }],
  ["savetotallimit", { path: "train.keepCheckpoints" }],
  ["epsilon", { path: "objective.epsilonLow" }],
  ["losstype", { path: "objective.kind" }],
  ["scalerewards", { path: "objective.advantageScale" }],
  ["masktruncatedcompletions", { path: "objective.maskTruncated" }],
  ["beta", { path: "objective.klCoefficient" }],
  ["klcoef", { path: "objective.klCoefficient" }],
  ["klcoeff", { path: "objective.klCoefficient" }],
  ["klpenalty", { path: "objective.klCoefficient" }],
  ["klloss", { path: "objective.klCoefficient" }],
  ["importancesamplinglevel", { path: "objective.level" }],
  ["multiobjectiveaggregation", { path: "objective.advantage", note: 'normalize_then_sum is "gdpo" here' }],
  ["topentropyquantile", { path: "objective.topEntropyShare" }],
  ["entropycoef", { path: "objective.entropyCoefficient" }],
  ["useadaptiveentropy", { path: "objective.entropyAdaptive" }],
  ["vllmimportancesamplingmode", { path: "objective.correction" }],
  ["vllmimportancesamplingclipmax", { path: "objective.correctionMax" }],
  ["vllmimportancesamplingclipmin", { path: "objective.correctionMin" }],
  ["offpolicymaskthreshold", { path: "objective.offPolicyThreshold" }],
  ["usebiascorrectionkl", { path: "objective.klUnbiased" }],
  ["syncrefmodel", { path: "objective.reference", note: 'true is "moving" here' }],
  ["refmodelmixupalpha", { path: "objective.referenceMix" }],
  ["refmodelsyncsteps", { path: "objective.referenceEverySteps" }],
  ["advestimator", { path: "objective.advantage" }],
  ["vllmserverbaseurl", { path: "inference.urls" }],
  ["vllmservertimeout", { path: "inference.startTimeoutMs", note: ms }],
  ["requesttimeout", { path: "inference.requestTimeoutMs", note: ms }],
  ["maxmodellen", { path: "inference.maxModelLength" }],
  ["weightsynctimeout", { path: "transfer.timeoutMs", note: ms }],
  ["rewardfuncs", { path: "rewards" }],
  ["outputdir", { path: "runDir" }],
  ["modelnameorpath", { path: "model.path" }],
  ["datasetname", { path: "data.source" }],
  ["evalsteps", { path: "eval.everySteps" }],
  ["loggingsteps", { path: "tracking.logEverySteps" }],
  ["reportto", { path: "tracking.trackers" }],
])

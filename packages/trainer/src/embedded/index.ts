export { createEmbeddedBackend, type EmbeddedBackend, type EmbeddedSettings } from "./backend.ts"
export { type CoresOptions, trainerCores } from "./cores.ts"
export { chooseForm, type ChooseFormOptions, type FormChoice } from "./form.ts"
export { createTrainStep, type StepForm, type TrainedModel, type TrainStep, type TrainStepSettings } from "./train-step.ts"

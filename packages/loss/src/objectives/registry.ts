// Every objective by name.
import type { ObjectiveKind } from "../objective.ts"
import { bnpo } from "./bnpo.ts"
import { cispo } from "./cispo.ts"
import { dapo } from "./dapo.ts"
import type { ObjectiveDefinition } from "./definition.ts"
import { drGrpo } from "./dr-grpo.ts"
import { grpo } from "./grpo.ts"
import { gspo } from "./gspo.ts"
import { gspoToken } from "./gspo-token.ts"
import { luspo } from "./luspo.ts"
import { sapo } from "./sapo.ts"
import { vespo } from "./vespo.ts"

export const objectives: Readonly<Record<ObjectiveKind, ObjectiveDefinition>> = {
  grpo,
  dapo,
  bnpo,
  dr_grpo: drGrpo,
  cispo,
  gspo,
  gspo_token: gspoToken,
  sapo,
  luspo,
  vespo,
}

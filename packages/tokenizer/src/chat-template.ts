// Chat templates: messages in, the text that the model was trained to see out.
import { CohortError, isCohortError, messageOf } from "@cohort/errors"
import type { Json, Message } from "@cohort/env"
import { Template } from "@huggingface/jinja"

export interface RenderOptions {
  /** Ends the text where the assistant begins to speak. Default false. */
  readonly addGenerationPrompt?: boolean
  /** Tool definitions in the JSON form that templates read; see `toolDefinitions`. */
  readonly tools?: readonly Json[]
  /** Further variables of the template, as `enable_thinking`. */
  readonly args?: Readonly<Record<string, Json>>
}

export interface ChatTemplate {
  readonly available: boolean
  /** @throws CohortError `tokenizer_invalid` */
  render(messages: readonly Message[], options?: RenderOptions): string
}

/**
 * A renderer over the templates of one tokenizer: `tool_use` when tools are given and there is one, else `default`.
 *
 * @param texts special token texts that templates may name (`bos_token`, `eos_token`)
 */
export function chatTemplate(
  templates: ReadonlyMap<string, string>,
  texts: Readonly<Record<string, string>>,
  source: string,
): ChatTemplate {
  const compiled = new Map<string, Template>()

  const pick = (hasTools: boolean): readonly [name: string, text: string] => {
    const name = hasTools && templates.has("tool_use") ? "tool_use" : "default"
    const text = templates.get(name)
    if (text !== undefined) return [name, text]
    throw new CohortError("tokenizer_invalid", `${source}: has no ${templates.size > 0 ? "default " : ""}chat template`, {
      hint: `Prompts of messages need one: use plain text prompts, or add chat_template.jinja to the folder.${
        templates.size > 0 ? ` Templates found: ${[...templates.keys()].join(", ")}.` : ""
      }`,
      details: { source },
    })
  }

  const compile = (name: string, text: string): Template => {
    const known = compiled.get(name)
    if (known !== undefined) return known
    const template = new Template(text)
    compiled.set(name, template)
    return template
  }

  const render = (messages: readonly Message[], options: RenderOptions = {}): string => {
    const tools = options.tools ?? []
    const [name, text] = pick(tools.length > 0)
    if (messages.length === 0) throw new CohortError("tokenizer_invalid", "a chat of no messages cannot be rendered")
    if (tools.length > 0 && !text.includes("tools")) {
      throw new CohortError("tokenizer_invalid", `${source}: the chat template does not show tools to the model, ${tools.length} were given`, {
        hint: "Use a model whose template knows tools, or give a template of your own.",
        details: { source, tools: tools.length },
      })
    }
    try {
      return compile(name, text).render({
        ...texts,
        documents: null,
        ...options.args,
        messages: messages.map(templateMessage),
        // Null rather than absent, as transformers does: templates ask "is not none" too.
        tools: tools.length > 0 ? tools : null,
        add_generation_prompt: options.addGenerationPrompt ?? false,
      })
    } catch (error) {
      if (isCohortError(error)) throw error
      throw new CohortError("tokenizer_invalid", `${source}: the chat template failed: ${messageOf(error)}`, {
        hint: "The template may refuse these messages (roles, order), or use what the template engine does not know.",
        details: { source, template: name },
        cause: error,
      })
    }
  }
  return { available: templates.size > 0, render }
}

// Most templates know reasoning under the name `reasoning_content`.
function templateMessage(message: Message): Record<string, unknown> {
  return message.reasoning === undefined ? { ...message } : { ...message, reasoning_content: message.reasoning }
}

// Tagged sections: the whole text is these blocks, each once, in this order, with only white space between.

/**
 * What keeps a text from being just its sections; undefined for a good one. Every tag is counted, so a block that is repeated
 * inside another is seen.
 *
 * @example sectionProblem("<think>a</think> <answer>b</answer>", ["think", "answer"]) // undefined
 */
export function sectionProblem(text: string, sections: readonly string[]): string | undefined {
  for (const section of sections) {
    for (const tag of [`<${section}>`, `</${section}>`]) {
      const count = text.split(tag).length - 1
      if (count !== 1) return `${tag} occurs ${count} times, not once`
    }
  }
  let rest = text
  for (const section of sections) {
    rest = rest.trimStart()
    if (!rest.startsWith(`<${section}>`)) return `something other than <${section}> stands where that section starts`
    const end = rest.indexOf(`</${section}>`)
    if (end === -1) return `the section ${section} closes before it opens`
    rest = rest.slice(end + section.length + 3)
  }
  return rest.trim() === "" ? undefined : `text follows the section ${sections.at(-1)}`
}

/** What was typed into the palette: words that have to fit, or a verb and the job that it is for. */

export const VERBS = { run: ["Run", "is asked to run"], pause: ["Pause", "is paused"], resume: ["Resume", "is resumed"] };

/** Returns the verb and the rest of what was typed: "run invoices" is {verb: "run", text: "invoices"}. */
export function wordsOfPalette(typed) {
  const [first, ...rest] = typed.trim().split(/\s+/);
  return Object.hasOwn(VERBS, first) && rest.length ? { verb: first, text: rest.join(" ") } : { verb: null, text: typed.trim() };
}

/** Returns whether all words of a query are in a text. */
export function fitsPalette(text, query) {
  const low = text.toLowerCase();
  return query
    .toLowerCase()
    .split(/\s+/)
    .every((word) => low.includes(word));
}

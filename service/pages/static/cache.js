// How much of the prompts was known already, where it lay, and why the rest was not.

import { byId, element, say, show } from "./dom.js";
import { stacked } from "./bars.js";
import { count, several, share } from "./words.js";

const WHY = {
  cold: "nothing alike was asked before",
  evicted: "it was, and made room for others",
  diverged: "the prompt went another way in its middle",
  version: "kept by another version",
  not_trimmable: "the model cannot go back to that place",
  too_short: "too short to be kept",
};

export function showCache(cache) {
  const hits = Object.values(cache.hit_tokens).reduce((sum, each) => sum + each, 0);
  const whole = hits + cache.missed_tokens;
  say(byId("cache-share"), whole ? `${share(hits / whole)} from the prefix cache` : "");
  show(byId("cache"), cache, () => (whole ? bar(cache) : [element("p", { class: "note" }, "No prompt was looked up yet.")]));
}

function bar(cache) {
  const parts = [
    { name: "from memory", size: cache.hit_tokens.ram ?? 0, kind: "a" },
    { name: "from disk", size: cache.hit_tokens.disk ?? 0, kind: "b" },
    { name: "computed", size: cache.missed_tokens, kind: "free" },
  ].map((part) => ({ ...part, text: count(part.size) }));
  const reasons = Object.entries(cache.misses).sort(([, one], [, other]) => other - one);
  const label = parts.map((part) => `${part.text} ${part.name}`).join(", ");
  const why = reasons.map(([reason, times]) => element("li", {}, element("b", {}, several(times, "prompt")), ` ${WHY[reason] ?? reason}`));
  return [...stacked(`Prompt tokens: ${label}`, parts), ...(why.length ? [element("p", { class: "note" }, "Why not more:"), element("ul", { class: "why" }, ...why)] : [])];
}

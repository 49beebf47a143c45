// The engine's memory by kind against its limit, and whether it leaks.

import { byId, element, say, show } from "./dom.js";
import { stacked } from "./bars.js";
import { bytes, share } from "./words.js";

export function showMemory(live, watchdog) {
  const leak = watchdog?.look?.verdicts.find((verdict) => verdict.detector === "leak");
  const memory = live.engine?.memory;
  say(byId("memory-total"), memory ? total(memory) : "");
  show(byId("memory"), [memory, leak?.sentence, leak?.level], () => [
    ...(memory ? bar(memory) : [element("p", { class: "note" }, "There is no engine at the moment.")]),
    ...(leak ? [element("p", { class: "verdict", "data-level": leak.level }, sentence(leak))] : []),
  ]);
}

/** What the process holds: the larger of what MLX says and what the system says. */
const held = (memory) => Math.max((memory.active ?? 0) + (memory.cache ?? 0), memory.footprint ?? 0);

function total(memory) {
  const used = held(memory);
  return memory.limit ? `${bytes(used)} of ${bytes(memory.limit)} · ${share(used / memory.limit)}` : bytes(used);
}

function bar(memory) {
  const { active = 0, cache = 0, weights = 0, kv = 0 } = memory;
  const rest = held(memory) - active - cache;
  const free = memory.limit ? Math.max(0, memory.limit - held(memory)) : 0;
  const parts = [
    ["weights", weights, "a"], ["KV", kv, "b"], ["other arrays", Math.max(0, active - weights - kv), "c"],
    ["freed buffers", cache, "d"], ["the process", rest, "e"], ["free", free, "free"],
  ].map(([name, size, kind]) => ({ name, size, kind, text: bytes(size) }));
  return stacked(`Memory by kind: ${parts.filter((part) => part.size > 0).map((part) => `${part.name} ${part.text}`).join(", ")}`, parts);
}

function sentence(leak) {
  const left = leak.numbers.exhaustion_seconds;
  const projected = leak.level !== "ok" && left ? ` At that rate it is full in ${(left / 3600).toFixed(left < 36000 ? 1 : 0)} h.` : "";
  return `${leak.sentence[0].toUpperCase()}${leak.sentence.slice(1).replace(/\.?$/, ".")}${projected}`;
}

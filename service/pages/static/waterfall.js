// Where one request's time went: a line a span, with its pieces marked.

import { drawn, element } from "./dom.js";
import { count, lasting } from "./words.js";

const LEAST = 5;
const NAMES = {
  "stoker.tokenize": "tokenize", "stoker.queue": "queue", "stoker.prefill": "prefill",
  "stoker.decode": "decode", "stoker.resume": "resume", "stoker.stream": "stream",
};

export function waterfall(trace) {
  const lines = inOrder(trace.spans).map(({ span, depth }) => line(trace, span, depth));
  const head = element("tr", {}, ...["Part", "Place in time", "Begins", "Takes", "What is to know"].map((text) => element("th", { scope: "col" }, text)));
  const table = element("table", { class: "waterfall" }, element("caption", {}, "Where its time went"), element("thead", {}, head), element("tbody", {}, ...lines));
  return element("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": "Where its time went" }, table, element("p", { class: "note" }, `trace ${trace.trace_id} · request ${trace.request_id}`));
}

function line(trace, span, depth) {
  const name = NAMES[span.name] ?? span.name;
  const kind = span.error || span.attributes["error.type"] ? "failed" : NAMES[span.name] ?? "whole";
  return element("tr", {},
    element("th", { scope: "row", class: `depth-${Math.min(depth, 3)}` }, name),
    element("td", {}, bar(span, kind, trace.duration_s)),
    element("td", { class: "number" }, lasting(span.start_s)),
    element("td", { class: "number" }, lasting(span.end_s - span.start_s)),
    element("td", {}, details(span)),
  );
}

function bar(span, kind, whole) {
  const scale = whole > 1e-9 ? 1000 / whole : 0;
  const width = Math.max(LEAST, (span.end_s - span.start_s) * scale);
  const x = Math.min(span.start_s * scale, 1000 - width);
  // Marks on what is hardly wider than they are would hide it.
  const marked = width > 4 * LEAST ? span.events : [];
  const ticks = marked.map((event) => drawn("line", { class: "tick", x1: event.at_s * scale, x2: event.at_s * scale, y1: 1, y2: 13 }));
  return drawn("svg", { class: "lane", viewBox: "0 0 1000 14", preserveAspectRatio: "none", "aria-hidden": "true" }, drawn("rect", { x, y: 2, width, height: 10, class: kind }), ...ticks);
}

/** Parents before children, children by their begin. */
function inOrder(spans) {
  const known = new Set(spans.map((span) => span.id));
  const byBegin = [...spans].sort((one, other) => one.start_s - other.start_s);
  const found = [];
  const visit = (parent, depth) => {
    for (const span of byBegin.filter((each) => (known.has(each.parent) ? each.parent : null) === parent)) {
      found.push({ span, depth });
      visit(span.id, depth + 1);
    }
  };
  visit(null, 0);
  return found;
}

function details({ attributes, events }) {
  const said = (name) => attributes[`stoker.${name}`];
  const chunks = events.filter((event) => event.name === "chunk").length;
  const parts = [
    said("prefill.total_tokens") !== undefined && `${count(said("prefill.total_tokens"))} tokens, ${count(said("prefill.cached_tokens"))} known`,
    said("cache.tier") && `from ${said("cache.tier")}`,
    said("cache.miss_reason") && `missed: ${said("cache.miss_reason").replaceAll("_", " ")}`,
    chunks > 1 && `${chunks} pieces`,
    said("emitted_tokens") !== undefined && `${count(said("emitted_tokens"))} tokens were with the client`,
    said("gap_seconds") !== undefined && `gap of ${lasting(said("gap_seconds"))}`,
    said("drafted_tokens") > 0 && `${count(said("accepted_tokens"))} of ${count(said("drafted_tokens"))} drafted tokens kept`,
    attributes["gen_ai.usage.output_tokens"] !== undefined && `${count(attributes["gen_ai.usage.output_tokens"])} tokens written`,
    attributes["error.type"],
  ];
  return parts.filter(Boolean).join(" · ");
}

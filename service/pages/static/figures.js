// The figures of this moment, and the curve of tokens behind one of them.

import { byId, drawn, element, mark, say } from "./dom.js";
import { lasting, several } from "./words.js";

const LENGTH = 300;
const WIDTH = 300;
const HEIGHT = 40;

let rates = [];
let figures = null;

export function remember(history) {
  rates = history.slice(-LENGTH);
}

export function showFigures(live) {
  figures ??= made();
  rates.push(live.tokens_per_s);
  if (rates.length > LENGTH) rates.shift();
  say(figures.tokens.value, live.tokens_per_s < 10 ? live.tokens_per_s.toFixed(1) : live.tokens_per_s.toFixed(0));
  say(figures.tokens.note, "a second, all streams together");
  drawCurve();
  const first = live.first_token;
  say(figures.first.value, first ? lasting(first.p50) : "–");
  say(figures.first.note, first ? `p95 ${lasting(first.p95)}, of ${several(first.count, "request")}` : "no request in 15 minutes");
  say(figures.running.value, String(live.running));
  say(figures.running.note, live.suspended ? `${several(live.suspended, "stream")} wait for an engine` : "being answered");
  say(figures.waiting.value, String(live.waiting));
  say(figures.waiting.note, live.waiting ? "for their turn" : "nobody waits");
}

function made() {
  const cards = {
    tokens: card("Tokens", drawn("svg", { class: "curve", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" }, drawn("path", { class: "area" }), drawn("path", { class: "line" }))),
    first: card("First token"),
    running: card("Running"),
    waiting: card("Waiting"),
  };
  byId("figures").replaceChildren(...Object.values(cards).map((each) => each.root));
  return cards;
}

function card(title, picture = null) {
  const value = element("span", { class: "value" });
  const note = element("span", { class: "note" });
  const root = element("div", { class: "card" }, element("dt", {}, title), element("dd", {}, value, note, picture));
  return { root, value, note, picture };
}

function drawCurve() {
  const most = Math.max(1, ...rates);
  const points = rates.map((rate, index) => {
    const x = WIDTH - (rates.length - 1 - index) * (WIDTH / (LENGTH - 1));
    return `${x.toFixed(1)},${(HEIGHT - 1 - (rate / most) * (HEIGHT - 3)).toFixed(1)}`;
  });
  const [area, line] = figures.tokens.picture.children;
  const begin = points[0].split(",")[0];
  mark(line, "d", `M${points.join("L")}`);
  mark(area, "d", `M${begin},${HEIGHT}L${points.join("L")}L${WIDTH},${HEIGHT}Z`);
}

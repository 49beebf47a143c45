// Uptime as a ribbon of half hours: read by eye, by pointer, and as a slider by keyboard and screen reader.

import { byId, drawn, element, mark, say, show } from "./dom.js";
import { dayAndTime, lasting, several, share, shortTime } from "./words.js";

const HEIGHT = 36;
const LEAST = 6; // A second down must be seen in half an hour.
const HINT = "Each bar is half an hour. Point at one, or use the arrow keys.";

let pieces = [];
let incidents = [];
let chosen = null;

export function showRibbon(past) {
  ({ pieces } = past);
  incidents = past.incidents.map((told) => told.incident);
  const wanted = past.uptime.up_s + past.uptime.down_s;
  const down = past.uptime.down_s >= 1 ? ` · down for ${lasting(past.uptime.down_s)}` : "";
  say(byId("uptime-share"), wanted ? `${share(past.uptime.up_s / wanted, 2)} up${down}` : "");
  show(byId("ribbon"), [pieces, incidents.map((each) => each.id)], () => [ribbon()]);
  choose(chosen);
}

function ribbon() {
  const bars = pieces.flatMap((piece, index) => bar(piece, index));
  const picture = drawn("svg", { viewBox: `0 0 ${pieces.length} ${HEIGHT + 8}`, preserveAspectRatio: "none", "aria-hidden": "true" }, ...bars, drawn("rect", { class: "cursor", y: 0, width: 1, height: HEIGHT + 8, visibility: "hidden" }));
  const slider = element("div", {
    class: "ribbon", role: "slider", tabindex: "0", "aria-labelledby": "uptime-title",
    "aria-valuemin": "0", "aria-valuemax": String(pieces.length - 1), "aria-valuenow": String(pieces.length - 1), "aria-valuetext": HINT,
  }, picture);
  slider.addEventListener("pointermove", (event) => choose(at(event, slider)));
  slider.addEventListener("pointerdown", (event) => choose(at(event, slider)));
  slider.addEventListener("pointerleave", () => choose(null));
  slider.addEventListener("focus", () => choose(chosen ?? pieces.length - 1));
  slider.addEventListener("blur", () => choose(null));
  slider.addEventListener("keydown", step);
  const scale = element("div", { class: "scale", "aria-hidden": "true" }, ...["72 h ago", "48 h", "24 h", "now"].map((text) => element("span", {}, text)));
  const wrapper = element("div", {}, slider, scale);
  return wrapper;
}

function bar(piece, index) {
  const { up_s: up, down_s: down, off_s: off } = piece.uptime;
  const scale = HEIGHT / (piece.until - piece.since);
  const place = { x: index + 0.1, width: 0.8 };
  const green = up ? Math.max(LEAST, up * scale) : 0;
  const red = down ? Math.max(LEAST, down * scale) : 0;
  const grey = off * scale;
  const unknown = Math.max(0, HEIGHT - green - red - grey);
  const parts = [["unknown", unknown], ["off", grey], ["down", red], ["up", HEIGHT - unknown - grey - red]];
  let y = 0;
  const bars = [];
  for (const [name, height] of parts) {
    if (height > 0) bars.push(drawn("rect", { ...place, y, height, class: name }));
    y += height;
  }
  if (incidentsOf(piece).length) bars.push(drawn("rect", { ...place, y: HEIGHT + 3, height: 4, class: "incident" }));
  return bars;
}

function choose(index) {
  chosen = index;
  const slider = byId("ribbon").querySelector(".ribbon");
  const cursor = slider.querySelector(".cursor");
  mark(cursor, "visibility", index === null ? "hidden" : "visible");
  if (index === null) {
    say(byId("ribbon-text"), HINT);
    return;
  }
  mark(cursor, "x", index);
  mark(slider, "aria-valuenow", index);
  mark(slider, "aria-valuetext", told(pieces[index]));
  say(byId("ribbon-text"), told(pieces[index]));
}

function told(piece) {
  const { up_s: up, down_s: down, off_s: off } = piece.uptime;
  const parts = [];
  if (up + down > 0) parts.push(`${share(up / (up + down), 1)} up`);
  if (down >= 0.05) parts.push(`down for ${lasting(down)}`);
  if (off >= 1) parts.push(`switched off for ${lasting(off)}`);
  if (up + down + off === 0) parts.push("nothing is known");
  if (piece.engine_starts) parts.push(`engine started ${several(piece.engine_starts, "time")}`);
  const kinds = counted(incidentsOf(piece).map((incident) => incident.kind.replaceAll("_", " ")));
  if (kinds.length) parts.push(`incidents: ${kinds.join(", ")}`);
  return `${dayAndTime(piece.since)} to ${shortTime(piece.until)}: ${parts.join(", ")}`;
}

function counted(names) {
  const counts = new Map();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].map(([name, number]) => (number > 1 ? `${number} × ${name}` : name));
}

const incidentsOf = (piece) => incidents.filter((each) => each.opened_at < piece.until && (each.closed_at ?? Infinity) >= piece.since);

function at(event, slider) {
  const { left, width } = slider.getBoundingClientRect();
  const index = Math.floor(((event.clientX - left) / width) * pieces.length);
  return Math.min(Math.max(index, 0), pieces.length - 1);
}

function step(event) {
  const moves = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -12, PageUp: 12, Home: -pieces.length, End: pieces.length };
  if (!(event.key in moves)) return;
  event.preventDefault();
  choose(Math.min(Math.max((chosen ?? pieces.length - 1) + moves[event.key], 0), pieces.length - 1));
}

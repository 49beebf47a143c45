// The last requests, newest first; each opens to show where its time went.

import { byId, element, mark, say } from "./dom.js";
import { headers } from "./operator.js";
import { waterfall } from "./waterfall.js";
import { count, lasting, time } from "./words.js";

const rows = new Map();
let latest = [];

export function showRequests(requests) {
  latest = requests;
  const canaries = byId("canaries").checked;
  const shown = requests.filter((request) => canaries || !request.canary);
  byId("empty").hidden = shown.length > 0;
  byId("list").hidden = shown.length === 0;
  if (!shown.length) showCurl();
  for (const [id, row] of rows) {
    if (!shown.some((request) => request.id === id)) {
      row.nodes.forEach((node) => node.remove());
      rows.delete(id);
    }
  }
  let before = null;
  for (const request of shown) {
    if (!rows.has(request.id)) insert(request, before);
    before = rows.get(request.id).nodes[1];
  }
}

/** Two rows of the table: the request, and beneath it its waterfall once it was asked for. */
function insert(request, before) {
  const detail = element("tr", { class: "detail", id: `detail-${request.id}`, hidden: "" }, element("td", { colspan: "7" }));
  const toggle = element("button", { type: "button", class: "plain", "aria-expanded": "false", "aria-controls": detail.id }, time(request.at));
  const row = element("tr", { class: "request" },
    element("td", {}, toggle),
    element("td", {}, shortened(request.what), request.canary && element("span", { class: "tag" }, "canary")),
    element("td", { class: "number wide" }, prompt(request)),
    element("td", { class: "number wide" }, request.output_tokens === undefined ? "–" : count(request.output_tokens)),
    element("td", { class: "number roomy" }, request.first_token_s === undefined ? "–" : lasting(request.first_token_s)),
    element("td", { class: "number" }, lasting(request.duration_s)),
    element("td", {}, result(request)),
  );
  row.addEventListener("click", () => open(request, toggle, detail));
  rows.set(request.id, { nodes: [row, detail] });
  const body = byId("rows");
  if (before) before.after(row, detail);
  else body.prepend(row, detail);
}

async function open(request, toggle, detail) {
  const opened = detail.hidden;
  detail.hidden = !opened;
  mark(toggle, "aria-expanded", opened);
  const cell = detail.firstChild;
  if (!opened || cell.childElementCount) return;
  say(cell, "One moment.");
  try {
    const response = await fetch(`/page/requests/${request.id}`, { headers: headers() });
    const body = await response.json();
    cell.replaceChildren(response.ok ? waterfall(body) : body.error.message);
  } catch {
    say(cell, "The service did not answer; close this and open it again.");
  }
}

/** The path's own part; it may break behind a slash. */
const shortened = (what) => what.replace(/^[A-Z]+ (\/v1\/)?/, "").replaceAll("/", "/\u200b");

function prompt(request) {
  if (request.input_tokens === undefined) return "–";
  return request.cached_tokens ? `${count(request.input_tokens)} (${count(request.cached_tokens)} known)` : count(request.input_tokens);
}

function result(request) {
  const kind = request.error === "cancelled" ? "quiet" : request.error || request.status >= 400 ? "bad" : "good";
  const text = request.error === "cancelled" ? "client left" : request.error ? `${request.status} ${request.error}` : "answered";
  return element("span", { class: "result", "data-kind": kind }, text, request.resumed && element("span", { class: "tag" }, "resumed"));
}

function showCurl() {
  const body = JSON.stringify({ model: "default", stream: true, temperature: 0, messages: [{ role: "user", content: "What is the capital of France?" }] });
  say(byId("curl"), `curl ${location.origin}/v1/chat/completions \\\n  -H 'Content-Type: application/json' \\\n  -d '${body}'`);
}

byId("canaries").addEventListener("change", () => showRequests(latest));
byId("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(byId("curl").textContent.replaceAll("\\\n  ", ""));
    say(byId("copy"), "Copied");
  } catch {
    getSelection().selectAllChildren(byId("curl"));
    say(byId("copy"), "Selected");
  }
});

// What went wrong in the last three days, newest first, and what was done about it.

import { byId, element, say, show } from "./dom.js";
import { dayAndTime, lasting, several } from "./words.js";

const SHOWN = 12;

export function showIncidents(past) {
  const open = past.incidents.filter((told) => told.incident.closed_at === null).length;
  say(byId("incidents-count"), past.incidents_total ? `${several(past.incidents_total, "incident")}${open ? `, ${open} open` : ""}` : "");
  show(byId("incidents"), past.incidents, () => {
    const newest = past.incidents.slice(-SHOWN).reverse();
    return newest.length ? newest.map(item) : [element("li", { class: "note" }, "Nothing in 72 hours.")];
  });
}

function item({ incident, actions }) {
  const { opened_at: opened, closed_at: closed } = incident;
  const lasted = closed === null ? "still open" : `lasted ${lasting(Math.max(0, closed - opened))}`;
  return element("li", { "data-open": closed === null ? "yes" : "no" },
    element("p", {}, element("b", {}, incident.kind.replaceAll("_", " ")), element("span", { class: "note" }, `${dayAndTime(opened)}, ${lasted}`)),
    element("p", {}, incident.summary),
    ...actions.map((action) => element("p", { class: "note" }, `${action.why}: ${action.outcome ?? "under way"}`)),
  );
}

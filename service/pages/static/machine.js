// The machine under it, and what is turned away because of it. What a machine does not tell is said so, and never a 0.

import { byId, element, show } from "./dom.js";
import { bytes, dayAndTime, share } from "./words.js";

const HEAT = ["nominal", "moderate", "heavy: it slows down", "critical", "asleep"];
const UNKNOWN = "not told by this machine";

export function showMachine(watchdog) {
  if (watchdog === null) {
    show(byId("machine"), null, () => [fact("Watchdog", "does not answer", "firing")]);
    return;
  }
  const { tree, look, alerts } = watchdog;
  const quiet = alerts.quiet_until ? [["Alerts", `silent until ${dayAndTime(alerts.quiet_until)}`, "suspect"]] : [];
  const facts = [shed(tree.shed), ...quiet, ...(look ? host(look.sample.host) : []), ...alarms(look), versions(tree)];
  show(byId("machine"), facts, () => facts.map((each) => fact(...each)));
}

const fact = (name, text, level = "ok") => element("div", { "data-level": level }, element("dt", {}, name), element("dd", {}, text));

function shed(shed) {
  if (!shed.level) return ["Load shed", "nothing is turned away"];
  return ["Load shed", `level ${shed.level} of 3: ${shed.reason}`, "suspect"];
}

function host(host) {
  const used = host.memory_bytes && host.available_bytes !== undefined ? host.memory_bytes - host.available_bytes : null;
  const clock = host.clock_ratio === undefined ? "" : `, clock at ${share(host.clock_ratio)}`;
  return [
    ["Memory", used === null ? UNKNOWN : `${bytes(used)} of ${bytes(host.memory_bytes)} in use`],
    ["Swap", host.swap_used_bytes === undefined ? UNKNOWN : swap(host)],
    ["Heat", host.thermal_level === undefined ? `${UNKNOWN}${clock}` : `${HEAT[host.thermal_level] ?? host.thermal_level}${clock}`],
    ["Disk", host.disk_free_bytes === undefined ? UNKNOWN : `${bytes(host.disk_free_bytes)} free of ${bytes(host.disk_bytes)}`],
  ];
}

const swap = (host) => (host.swap_bytes ? `${bytes(host.swap_used_bytes)} of ${bytes(host.swap_bytes)} in use` : "none");

function alarms(look) {
  const wrong = (look?.verdicts ?? []).filter((verdict) => verdict.level !== "ok");
  return wrong.map((verdict) => [verdict.detector, verdict.sentence, verdict.level]);
}

const versions = (tree) => ["Stoker", `${tree.version}, engine restarted ${tree.engines[0].restarts} ×, service ${tree.service.restarts} ×`];

// The first thing to know: whether it is up, since when, and if not, why.

import { byId, mark, say } from "./dom.js";
import { lasting, time } from "./words.js";

export function showState(known) {
  const { mood, title, text } = judged(known);
  mark(byId("state"), "data-mood", mood);
  say(byId("state-title"), title);
  say(byId("state-text"), text);
  const tab = `${title} – Stoker`;
  if (document.title !== tab) document.title = tab;
}

function judged({ live, watchdog, connected }) {
  if (!connected) return unreachable(live);
  if (!live) return { mood: "quiet", title: "Connecting", text: "One moment." };
  const engine = watchdog?.tree.engines[0];
  const problem = live.problem;
  if (!problem) return up(live, watchdog);
  if (problem.code === "engine_unavailable") return recovering(live, engine);
  if (problem.code === "engine_loading") return { mood: "busy", title: "Starting", text: "The model is being loaded." };
  if (problem.code === "shutting_down") return { mood: "busy", title: "Stopping", text: "What runs is being finished." };
  const reason = watchdog?.tree.shed.reason ?? problem.message;
  return { mood: "busy", title: "Turning requests away", text: sentence(reason) };
}

function unreachable(live) {
  const seen = live ? ` What is below is from ${time(live.at)}.` : "";
  return { mood: "bad", title: "No answer", text: `The service does not answer; trying again.${seen}` };
}

function up(live, watchdog) {
  const shed = watchdog?.tree.shed;
  if (shed?.level) return { mood: "busy", title: "Up, turning some away", text: `Some requests are turned away: ${shed.reason}.` };
  if (!watchdog) return { mood: "good", title: "Up", text: "Requests are answered. The watchdog has said nothing yet." };
  const lately = live.at - upSince(watchdog.tree);
  const since = lately < 2 ? "since a moment" : `for ${lasting(lately)}`;
  const wrong = (watchdog.look?.verdicts ?? []).filter((verdict) => verdict.level === "firing");
  if (wrong.length) return { mood: "busy", title: `Up ${since}`, text: sentence(wrong[0].sentence) };
  return { mood: "good", title: `Up ${since}`, text: "Requests are answered, and nothing is wrong." };
}

function recovering(live, engine) {
  const waiting = live.suspended ? " Open streams wait, and go on with the next engine." : "";
  if (engine?.state === "circuit_open" || engine?.state === "failed") {
    const why = engine.failure ?? engine.last_restart?.reason ?? "it ended again and again";
    return { mood: "bad", title: "Down", text: sentence(`The engine stays away: ${why}`) };
  }
  // The watchdog's word for it may be of the death before.
  const reason = engine && engine.state !== "ready" ? engine.last_restart?.reason : null;
  return { mood: "busy", title: "Recovering", text: `The engine ${reason ? `ended (${reason})` : "is gone"} and is being started again.${waiting}` };
}

/** The latest moment at which a process of the tree became ready again, in seconds since 1970. */
function upSince(tree) {
  const moments = [tree.service, ...tree.engines]
    .map((child) => child.last_restart)
    .filter((restart) => restart && restart.ready_after_s !== null)
    .map((restart) => Date.parse(restart.at) / 1000 + restart.ready_after_s);
  return Math.max(Date.parse(tree.started_at) / 1000, ...moments);
}

const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;

// Who holds the tree's token may act. It goes out in a header, which no other site's page can send, and is forgotten
// with the tab.

import { byId, say } from "./dom.js";

const KEPT = "stoker-token";
const SURE_MS = 4000;
const ACTIONS = {
  restart: { path: "engines/default/restart", said: "The engine is being restarted.", grave: true },
  drain: { path: "engines/default/drain", said: "Nothing new is taken.", grave: true },
  resume: { path: "engines/default/resume", said: "Requests are taken." },
  silence: { path: "silence", body: { lasting_s: 3600, reason: "from the status page" }, said: "Nobody is told for an hour.", grave: true },
  speak: { path: "silence", body: { lasting_s: 0 }, said: "Incidents are told again." },
};

export const headers = () => {
  const token = sessionStorage.getItem(KEPT);
  return token ? { Authorization: `Bearer ${token}` } : {};
};

/** The page cannot be shown without a token: ends when there is one. */
export function askForToken() {
  const wrong = sessionStorage.getItem(KEPT) !== null;
  sessionStorage.removeItem(KEPT);
  byId("locked").hidden = false;
  byId("sections").hidden = true;
  say(byId("state-title"), "Locked");
  say(byId("state-text"), "This server shows what it does to its operator only.");
  say(byId("unlock-said"), wrong ? "That is not the token of this server." : "");
  return new Promise((unlocked) => {
    byId("unlock").addEventListener("submit", (event) => {
      event.preventDefault();
      keep(byId("unlock-token"));
      byId("locked").hidden = true;
      byId("sections").hidden = false;
      unlocked();
    }, { once: true });
  });
}

export function setUp() {
  const dialog = byId("operator");
  byId("operate").addEventListener("click", () => {
    say(byId("operator-said"), "");
    showActions();
    dialog.showModal();
  });
  byId("close").addEventListener("click", () => dialog.close());
  byId("login").addEventListener("submit", (event) => {
    event.preventDefault();
    keep(byId("login-token"));
    showActions();
  });
  byId("forget").addEventListener("click", () => {
    sessionStorage.removeItem(KEPT);
    showActions();
  });
  for (const button of dialog.querySelectorAll("[data-action]")) {
    button.addEventListener("click", () => act(button));
  }
}

function keep(input) {
  sessionStorage.setItem(KEPT, input.value.trim());
  input.value = "";
}

function showActions() {
  const has = sessionStorage.getItem(KEPT) !== null;
  byId("login").hidden = has;
  byId("actions").hidden = !has;
}

/** The first click asks, the second does it; what only ends something is done at once. */
async function act(button) {
  const { action, name = button.textContent } = button.dataset;
  button.dataset.name = name;
  if (ACTIONS[action].grave && button.dataset.sure !== "yes") {
    button.dataset.sure = "yes";
    say(button, `${name}? Click again`);
    setTimeout(() => calm(button), SURE_MS);
    return;
  }
  calm(button);
  say(byId("operator-said"), await done(action));
}

function calm(button) {
  button.dataset.sure = "no";
  say(button, button.dataset.name);
}

async function done(action) {
  try {
    const { path, body, said } = ACTIONS[action];
    const response = await fetch(`/page/${path}`, { method: "POST", headers: headers(), body: body && JSON.stringify(body) });
    if (response.ok) return said;
    const { error } = await response.json();
    if (response.status === 401) {
      sessionStorage.removeItem(KEPT);
      showActions();
      return "That is not the token of this server.";
    }
    return error.message;
  } catch {
    return "The service did not answer; try again.";
  }
}

// The page: one stream of news, each kind to the views that show it.

import { byId, say } from "./dom.js";
import { follow } from "./stream.js";
import { showState } from "./state.js";
import { showRibbon } from "./ribbon.js";
import { remember, showFigures } from "./figures.js";
import { showMemory } from "./memory.js";
import { showCache } from "./cache.js";
import { showMachine } from "./machine.js";
import { showRequests } from "./requests.js";
import { showIncidents } from "./incidents.js";
import { askForToken, headers, setUp as setUpOperator } from "./operator.js";

const known = { live: null, watchdog: null, past: null, connected: false };

const views = {
  history: remember,
  live(live) {
    known.live = live;
    say(byId("model"), live.model);
    showFigures(live);
    showMemory(live, known.watchdog);
    showCache(live.cache);
  },
  watchdog(watchdog) {
    known.watchdog = watchdog;
    showMachine(watchdog);
    if (known.live) showMemory(known.live, watchdog);
  },
  past(past) {
    known.past = past;
    showRibbon(past);
    showIncidents(past);
  },
  requests: showRequests,
};

function heard(kind, data) {
  performance.mark("update-begins");
  known.connected = true;
  document.body.dataset.stale = "no";
  views[kind]?.(data);
  showState(known);
  performance.measure(`update-${kind}`, "update-begins");
  performance.clearMarks("update-begins");
}

function lost() {
  known.connected = false;
  document.body.dataset.stale = "yes";
  showState(known);
}

setUpOperator();
follow("/page/events", headers, { heard, lost, refused: askForToken });

// Server-sent events by fetch, which can show a token where EventSource cannot; joined again when they end.

const RETRY_MS = 1000;
const SILENCE_MS = 20000;

/** `heard(kind, data)` for each event, `lost()` whenever it ends, `refused()` when a token is needed. */
export async function follow(path, headers, { heard, lost, refused }) {
  for (;;) {
    try {
      if ((await readOnce(path, headers(), heard)) === 401) {
        await refused();
        continue;
      }
    } catch (error) {
      if (!(error instanceof TypeError || error.name === "AbortError" || error.name === "NetworkError")) throw error;
    }
    lost();
    await new Promise((done) => setTimeout(done, RETRY_MS));
  }
}

async function readOnce(path, headers, heard) {
  const silence = new AbortController();
  let timer = setTimeout(() => silence.abort(), SILENCE_MS);
  try {
    const response = await fetch(path, { headers, cache: "no-store", signal: silence.signal });
    if (!response.ok) return response.status;
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return response.status;
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), SILENCE_MS);
      const events = (text + value).split("\n\n");
      text = events.pop();
      events.forEach((event) => take(event, heard));
    }
  } finally {
    clearTimeout(timer);
  }
}

function take(event, heard) {
  const found = /^event: (\w+)\ndata: (.*)$/.exec(event);
  if (found) heard(found[1], JSON.parse(found[2]));
}

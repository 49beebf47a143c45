// Numbers and times as people read them.

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const minute = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { weekday: "short", hour: "2-digit", minute: "2-digit" });
const grouped = new Intl.NumberFormat("en-GB");

export const time = (seconds) => clock.format(seconds * 1000);
export const shortTime = (seconds) => minute.format(seconds * 1000);
export const dayAndTime = (seconds) => day.format(seconds * 1000);
export const count = (number) => grouped.format(number);
export const several = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

export function share(part, digits = 0) {
  // What is not whole must not look whole.
  const shown = part < 1 ? Math.min(part * 100, 100 - 0.5 * 10 ** -Math.max(digits, 2)) : 100;
  const text = shown.toFixed(digits);
  return `${part < 1 && Number(text) === 100 ? shown.toFixed(2) : text} %`;
}

export function bytes(number) {
  for (const [unit, size, digits] of [["TB", 1e12, 2], ["GB", 1e9, 2], ["MB", 1e6, 0], ["kB", 1e3, 0]]) {
    if (Math.abs(number) >= size) return `${(number / size).toFixed(digits)} ${unit}`;
  }
  return `${number} B`;
}

/** A wait or a length: the two largest units that matter. */
export function lasting(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => seconds >= size);
  const [[large, size], next] = [units[first], units[first + 1]];
  const rest = next ? Math.floor((seconds % size) / next[1]) : 0;
  return `${Math.floor(seconds / size)} ${large}${rest ? ` ${rest} ${next[0]}` : ""}`;
}

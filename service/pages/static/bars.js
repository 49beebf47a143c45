// One bar of several parts, with a legend that says the same in words.

import { drawn, element } from "./dom.js";

/** `parts` are {name, size, text, kind}; what is too small to be seen is in neither. */
export function stacked(label, parts) {
  const all = parts.reduce((sum, part) => sum + part.size, 0);
  const shown = parts.filter((part) => part.size > all / 2000);
  const whole = shown.reduce((sum, part) => sum + part.size, 0);
  let x = 0;
  const pieces = shown.map((part) => {
    const width = (1000 * part.size) / whole;
    const piece = drawn("rect", { x, y: 0, width, height: 10, class: `part ${part.kind}` });
    x += width;
    return piece;
  });
  const picture = drawn("svg", { class: "stack", viewBox: "0 0 1000 10", preserveAspectRatio: "none", role: "img", "aria-label": label }, ...pieces);
  const legend = element("ul", { class: "legend" }, ...shown.map((part) => element("li", {}, element("span", { class: `dot ${part.kind}` }), `${part.name} `, element("b", {}, part.text))));
  return [picture, legend];
}

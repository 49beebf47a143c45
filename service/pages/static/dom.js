// Elements, and changes to them that cost nothing when nothing has changed.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

/** An element with attributes and children; what is null or false is left out. */
export function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

export function drawn(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== undefined && child !== null && child !== false));
  return node;
}

export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function mark(node, name, value) {
  if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

/** Show `children` in place of what is there, unless `key` says that they are the same. */
export function show(node, key, children) {
  const text = JSON.stringify(key);
  if (node.shownKey === text) return;
  node.shownKey = text;
  node.replaceChildren(...children());
}

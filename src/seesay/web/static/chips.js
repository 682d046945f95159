// The parts of a query and the conditions of a filter, as removable chips.

const WORD = /(?:-\s*)?\p{L}+:(?:"[^"]*"|[^\s"]+)(?!\S)|"[^"]*"|\S+/gu;

export const conditionsIn = (where) => where?.match(WORD) ?? [];

// Returns the query without its i-th part; null if the other parts only subtract.
export function withoutPart(parts, i) {
  const others = parts.filter((_, j) => j !== i);
  if (!others.some(({ weight }) => weight > 0)) return null;
  return others.map(({ text }) => text).join(" ").replace(/^\+ /, "");
}

export function chip(text, onRemove) {
  const item = document.createElement("li");
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = `${text} ×`;
  button.setAttribute("aria-label", `Remove ${text}`);
  button.addEventListener("click", onRemove);
  item.append(button);
  return item;
}

// The parts of a query and the conditions of a filter, as removable chips.

const WORD = /(?:-\s*)?\p{L}+:(?:"[^"]*"|[^\s"]+)(?!\S)|"[^"]*"|\S+/gu;
const CONDITION = /^(?:-\s*)?(\p{L}+):/u;
const TERMS = ["id", "image", "upload", "http", "https"]; // which belong to the query

export const conditionsIn = (where) => where?.match(WORD) ?? [];

// Splits what was typed into the query and the conditions of a filter, such as taken:2021 and -folder:Screenshots.
export function splitTyped(text) {
  const isCondition = (word) => !TERMS.includes(CONDITION.exec(word)?.[1].toLowerCase() ?? "id");
  const words = text.match(WORD) ?? [];
  return {
    q: words.filter((word) => !isCondition(word)).join(" "),
    conditions: words.filter(isCondition).map((word) => word.replace(/^-\s+/, "-")),
  };
}

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

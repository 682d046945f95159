// Conditions of the filter and parts of the query, as removable chips, and pickers of a folder and of dates.

import * as api from "./api.js";
import { read } from "./state.js";

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

const DATES = /^taken:(\d{4}-\d{2}-\d{2})?(?:\.\.(\d{4}-\d{2}-\d{2})?)?$/;
// Between slashes, so that "a" is not found in "banana".
export const inFolder = (name) => (/\s/.test(name) ? `folder:"/${name}/"` : `folder:/${name}/`);
const folderIn = (condition) => /^folder:"?\/?([^"]*?)\/?"?$/.exec(condition)?.[1];

export class Filters {
  // `onChange(where)` is called with the new filter; null for none.
  constructor({ onChange }) {
    const find = (selector) => document.querySelector(selector);
    this.opener = find("#pick");
    [this.picker, this.folder, this.from, this.to] = [find("#picker"), find("#folder"), find("#from"), find("#to")];
    this.onChange = (conditions) => onChange([...new Set(conditions)].join(" ") || null);
    this.picker.addEventListener("toggle", ({ newState }) => newState === "open" && this.fill());
    this.folder.addEventListener("change", () => this.replace("folder:", this.folder.value && inFolder(this.folder.value)));
    for (const input of [this.from, this.to]) {
      input.addEventListener("change", () => {
        if (!this.from.validity.valid || !this.to.validity.valid) return; // while a year is being typed
        const [from, to] = [this.from.value, this.to.value];
        this.replace("taken:", from || to ? `taken:${from}..${to}` : "");
      });
    }
  }

  show(where) {
    this.opener.hidden = false;
    const dates = conditionsIn(where).map((each) => DATES.exec(each)).find(Boolean);
    [this.from.value, this.to.value] = [dates?.[1] ?? "", dates?.[2] ?? ""];
  }

  hide() {
    this.opener.hidden = true;
  }

  replace(name, condition) {
    const others = conditionsIn(read().where).filter((each) => !each.startsWith(name));
    this.onChange(condition ? [...others, condition] : others);
  }

  async fill() {
    const { counts } = await api.folders().catch(() => ({ counts: [] }));
    const chosen = conditionsIn(read().where).map(folderIn).find(Boolean) ?? "";
    const names = counts.map(({ name }) => name).filter((name) => !name.includes('"')); // which no filter can name
    const others = chosen && !names.includes(chosen) ? [chosen] : [];
    const options = [...others, ...names].map((name) => new Option(name, name));
    this.folder.replaceChildren(new Option("All folders", ""), ...options);
    this.folder.value = chosen;
  }
}

// The texts of the page in each language, and the formatting of numbers.

import { keep, recall } from "./kept.js";
import de from "./words/de.js";
import en from "./words/en.js";
import zh from "./words/zh.js";

export const LANGUAGES = { en: "English", de: "Deutsch", zh: "中文" };

export const WORDS = { en, de, zh };
const KEPT = "seesay-language";
const wanted = () => [recall(KEPT), ...navigator.languages].map((code) => code?.slice(0, 2));
let spoken = wanted().find((code) => code in WORDS) ?? "en";

export const language = () => spoken;
const number = (value) => new Intl.NumberFormat(spoken).format(value);

// Returns the text of that name; `count` selects the plural form.
export function t(name, values = {}) {
  const found = WORDS[spoken][name] ?? name;
  const rule = () => new Intl.PluralRules(spoken).select(values.count);
  const text = typeof found === "string" ? found : (found[rule()] ?? found.other);
  return text.replace(/\{(\w+)\}/g, (_, key) => (typeof values[key] === "number" ? number(values[key]) : values[key]));
}

// Returns a message of the server, which is in English, translated if a translation is known, and its language.
export function heard(message) {
  if (/^the image: (\w+ or damaged \(.*\)|cannot be decoded|empty, 0 bytes)\.$/.test(message)) return { text: t("notAnImage"), lang: spoken }; // an upload
  for (const [pattern, text] of WORDS[spoken].server ?? []) {
    if (pattern.test(message)) return { text: message.replace(pattern, text), lang: spoken };
  }
  return { text: message, lang: "en" };
}

// Fills in the texts of the page: data-t names an element's text, data-t-NAME that of an attribute.
export function translate() {
  document.documentElement.lang = spoken;
  for (const element of document.querySelectorAll("[data-t]")) element.textContent = t(element.dataset.t);
  for (const attribute of ["aria-label", "title", "placeholder"]) {
    for (const element of document.querySelectorAll(`[data-t-${attribute}]`)) {
      element.setAttribute(attribute, t(element.getAttribute(`data-t-${attribute}`)));
    }
  }
}

export function speak(code) {
  spoken = code;
  keep(KEPT, code);
  translate();
  dispatchEvent(new Event("spoken"));
}

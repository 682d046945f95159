// The state of the page, kept in its address so that reloading, Back, Forward and links work.
//   q, where, index   the question        image   the key of a dropped file (files.js)
//   near              near-duplicates     view    the id of the image that is shown large
//   text              only images in which words of the query were read
//   at                the year or month that all photos by date are scrolled to

const NAMES = ["index", "q", "image", "near", "text", "where", "at", "view"];

// The changes with which `go` shows all photos by date.
export const ALL = { q: null, image: null, near: null, text: null, where: null, at: null, view: null };

export function read() {
  const given = new URLSearchParams(location.search);
  return Object.fromEntries(NAMES.map((name) => [name, given.get(name)?.trim() || null]));
}

export function addressOf(state) {
  const given = NAMES.filter((name) => state[name]).map((name) => [name, state[name]]);
  return given.length ? `?${new URLSearchParams(given)}` : "./";
}

// Whether two states ask for the same images.
export const sameQuestion = (a, b) => NAMES.every((name) => name === "view" || name === "at" || a?.[name] === b?.[name]);

export function go(changes, { replace = false } = {}) {
  const state = { ...read(), ...changes };
  if (addressOf(state) !== addressOf(read())) {
    const kept = replace ? history.state : { from: "page" };
    history[replace ? "replaceState" : "pushState"](kept, "", addressOf(state));
  }
  dispatchEvent(new Event("statechange"));
}

// Leaves the large image like the browser's Back; a page that was opened with it has nothing to go back to.
export function leaveView() {
  if (history.state?.from === "page") history.back();
  else go({ view: null }, { replace: true });
}

addEventListener("popstate", () => dispatchEvent(new Event("statechange")));

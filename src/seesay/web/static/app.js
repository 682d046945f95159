// The search page. Its address contains the question (state.js), which determines what is shown.

import * as api from "./api.js";
import * as files from "./files.js";
import { Filters, chip, conditionsIn, withoutPart } from "./filters.js";
import { Gallery } from "./gallery.js";
import { keep, recall } from "./kept.js";
import { Pages, Timeline } from "./pages.js";
import { Panel, progressOf } from "./panel.js";
import { Selection } from "./selection.js";
import { Stacks } from "./stacks.js";
import { ALL, addressOf, go, read, sameQuestion } from "./state.js";
import { Viewer } from "./viewer.js";
import { counted } from "./words.js";

const PAGE = 100;
const MOST_TEXTS = 200; // images that an answer names because their text was read
const TEXTS = 8; // of them that stand above the others
const SCORES = "seesay-scores";
const CLAIMS = {
  sure: (text, and = "") => `Best matches for ${and}“${text}”`,
  perhaps: (text, and = "") => `Perhaps some of these match ${and}“${text}”`,
  nothing: (text, and = "") => `Probably nothing here matches ${and}“${text}”.`,
};

const $ = (id) => document.getElementById(id);
let asked = null; // the state that is shown
let pages = new Pages(async () => ({ results: [], next: null }));
let given = null; // { file, name, source }: the query image; without `file` if it is one of the index
let served = {};
let looked = Promise.resolve(); // until `served` is known
let latest = null; // the state of the update, if it is known
let jumped = null; // the year or month that was last scrolled to
let shownAt = 0; // `done` of the running update when all photos were last shown

const UPDATE = ["Look for new photos", () => panel.update().catch(fail)]; // a button's text, and what it does
const idIn = (q) => Number(/^id:(\d+)$/.exec(q ?? "")?.[1]) || null; // of the image that is the whole query

const stacks = new Stacks();
const selection = new Selection($("selection"), {
  hiddenBy: (image) => stacks.hiddenBy(image),
  onChange: () => {
    document.body.classList.toggle("picking", selection.images.size > 0);
    gallery.refresh();
  },
});
const gallery = new Gallery($("gallery"), {
  linkOf: ({ id }) => addressOf({ ...read(), view: id }),
  isPicked: (image) => selection.has(image),
  isPicking: () => selection.images.size > 0,
  onOpen: (i) => go({ view: gallery.images[i].id }),
  onPick: (i, toThere) => selection.pick(gallery.images, i, toThere),
  onStack: (i) => stacks.toggle(gallery.images, i),
  hiddenBy: (image) => stacks.hiddenBy(image),
  onEnd: () => more(pages),
  onMissing: (images) => fill(pages, images),
  onSight: (image) => markYear(image),
});
const viewer = new Viewer($("viewer"), {
  imagesNow: () => gallery.images.flatMap((image) => [image, ...stacks.hiddenBy(image)]),
  placeInStack,
  onEnd: () => more(pages),
  onMissing: (images) => fill(pages, images),
  onClose: (image) => gallery.focus(gallery.images.findIndex((each) => [each, ...stacks.hiddenBy(each)].some(({ id }) => id === image.id))),
});
const panel = new Panel($("panel"), {
  onProgress: whileUpdating,
  onUpdated: () => render(true),
  isStacked: () => stacks.isWanted,
  onStacked: (wanted) => {
    stacks.want(wanted);
    render(true);
  },
});
const filters = new Filters({ onChange: (where) => go({ where, near: null }) });

async function render(anew = false) {
  const state = read();
  const stays = anew && $("viewer").open; // at the end of an update
  if (!state.view && !stays) viewer.close();
  if (anew || !sameQuestion(asked, state)) await ask(state, anew);
  if (stays) viewer.showNeighbours();
  else if (state.view) await view(state);
  if (state.at && state.at !== jumped) jump(state.at);
}

// Scrolls all photos to a year or a month, such as 2021-06.
function jump(at) {
  const i = gallery.images.findIndex(({ time }) => time?.slice(0, at.length) <= at);
  jumped = at;
  showYears(pages);
  if (i >= 0) gallery.jump(i);
}

async function view(state) {
  const id = Number(state.view);
  try {
    const image = pages.images.find((each) => each.id === id) ?? (await api.facts(id));
    if (read().view === state.view) viewer.show(image, idIn(state.q) ? null : state.q);
  } catch (failure) {
    if (read().view === state.view) fail(failure);
  }
}

// Returns which image of its stack an image is, in words; null for one that is in none.
function placeInStack({ id }) {
  const top = gallery.images.find((each) => each.id === id || each.beneath?.some((other) => other.id === id));
  if (!top?.beneath?.length) return null;
  return `${[top, ...top.beneath].findIndex((each) => each.id === id) + 1} of ${top.beneath.length + 1} in this stack`;
}

async function ask(state, anew) {
  const isOther = anew || asked?.index !== state.index;
  const isSame = sameQuestion(asked, state);
  const shown = isSame ? gallery.images.length : 0; // at least as many are shown again, at the same place
  asked = state;
  pages.leave();
  if (!isSame) $("sentence").value = state.q ?? ""; // at once, so that what is typed from now on stays
  if (isOther) looked = look(state);
  await looked; // also if an earlier question about this index began it
  if (asked !== state) return;
  pages.leave();
  $("message").hidden = true;
  filters.show(state.where);
  document.title = state.q ? `${state.q} · seesay` : "seesay";
  let [found, failed] = [null, null];
  try {
    found = await givenBy(state);
  } catch (failure) {
    failed = failure;
  }
  if (asked !== state) return letGo(found);
  letGo(given);
  given = found;
  showGiven();
  if (failed) return fail(failed);
  const before = isSame ? pages : null;
  const mine = (pages = pagesOf(state));
  jumped = isSame ? jumped : null;
  gallery.element.classList.add("stale");
  const slow = setTimeout(() => ($("busy").hidden = false), 120);
  try {
    // The sentences may fail; the images are shown without them.
    const beside = [given?.file && !state.q && describe(state, mine)];
    await Promise.all([first(state, mine, shown, before), Promise.allSettled(beside)]);
  } catch (failure) {
    if (failure.name !== "AbortError" && mine === pages) fail(failure);
  } finally {
    clearTimeout(slow);
    if (mine === pages || asked === state) { // `showMore` may have replaced the pages
      $("busy").hidden = true;
      gallery.element.classList.remove("stale");
    }
  }
}

// Returns what fetches images: all photos by date, or the pages of a search.
function pagesOf(state) {
  const { where, q, near } = state;
  const sectionOf = sectionsOf(state);
  if (near) return new Pages(source(state));
  if (q || given?.file) return new Pages(source(state), stacks.adder(sectionOf));
  const page = (range, signal) => api.newest({ where, ...range }, signal);
  return new Timeline((signal) => api.months({ where }, signal), page, (images) => stacks.stacked(images, sectionOf));
}

// Returns the function that fetches pages: of near-duplicates, or of a search. Only the first page of a search with a file
// needs the file.
function source(state) {
  const { where, q } = state;
  if (state.near) {
    return async (_, signal) => {
      const { groups } = await api.duplicates(signal);
      const results = groups.flatMap((group, i) => group.map((image) => ({ ...image, group: i, alike: group.length })));
      return { results, next: null };
    };
  }
  const query = { q, where, limit: PAGE };
  if (state.text) {
    return async (_, signal) => {
      const answer = await api.search({ ...query, limit: MOST_TEXTS }, signal);
      return { ...answer, results: underOne(answer.text_hits), next: null };
    };
  }
  if (!given?.file) {
    const above = new Map(); // images whose text was read, each shown once
    return async (cursor, signal) => {
      const answer = await api.search({ ...query, cursor }, signal);
      const texts = underOne(answer.text_hits.slice(0, TEXTS));
      for (const image of texts) above.set(image.id, image);
      return { ...answer, results: [...texts, ...answer.results.filter(({ id }) => !above.has(id))] };
    };
  }
  const { file } = given;
  const upload = async (signal) => api.searchWith(await files.sendable(file), { q, where, limit: PAGE }, signal);
  let named = null; // the query, in which the server names the upload
  return async (cursor, signal) => {
    if (cursor === null) {
      const answer = await upload(signal);
      named = answer.q;
      return answer;
    }
    const page = () => api.search({ q: named, where, cursor, limit: PAGE }, signal);
    return page().catch(async (failure) => {
      if (failure.status !== 410) throw failure;
      await upload(signal); // the server has forgotten it
      return page();
    });
  };
}

// Gives images whose text was read, those with the most words first, one heading.
function underOne(texts) {
  const [most, least] = [texts[0]?.words, texts.at(-1)?.words];
  const words = least === most ? most : `${least} to ${most}`;
  return texts.map((image) => ({ ...image, heading: `Text read in pictures: ${words} of ${counted(image.of, "word")}` }));
}

async function first(state, mine, shown, before) {
  const answer = await mine.more(before instanceof Timeline ? before : null);
  while (mine === pages && mine.images.length < shown && !mine.isComplete) await mine.more();
  if (mine !== pages) return;
  const top = shown ? scrollY : 0;
  if (before instanceof Timeline) gallery.replace(mine.images, headings(state));
  else {
    gallery.show(mine.images, headings(state));
    scrollTo({ top, behavior: "instant" });
  }
  gallery.element.classList.remove("stale");
  $("scores").hidden = !answer.results.some(({ score }) => score !== undefined);
  tell(state, answer);
  showChips(state, answer.query ?? []);
  showYears(mine);
}

// Shows images that have been scrolled to.
async function fill(mine, images) {
  const hasCome = mine instanceof Timeline && (await mine.fill(images).catch(() => false));
  if (!hasCome || mine !== pages) return;
  gallery.replace(mine.images, headings(asked));
  if (read().view) viewer.showNeighbours();
}

// Adds images at the end. After a failure, the shown images stay, and the next scroll tries again.
async function more(mine) {
  const answer = await mine.more().catch(() => null);
  if (answer === null || mine !== pages || mine.images !== gallery.images) return;
  gallery.layout();
  gallery.refresh();
  if (read().view) viewer.showNeighbours();
}

// Returns the function that assigns images to sections: groups of near-duplicates, likely and less likely ones, or months.
function sectionsOf(state) {
  if (state.near) return ({ group }) => group;
  if (state.q || given?.file) return ({ heading, fits }) => heading ?? fits !== false;
  return ({ time }) => time.slice(0, 7);
}

function headings(state) {
  const sectionOf = sectionsOf(state);
  const month = new Intl.DateTimeFormat("en", { month: "long", year: "numeric", timeZone: "UTC" });
  const titleOf = (image, before) => {
    if (state.near) return counted(image.alike, "near-duplicate");
    if (image.heading) return image.heading;
    if (state.q || given?.file) {
      if (before?.heading) return `What pictures show${sectionOf(image) ? "" : ": less likely"}`;
      return sectionOf(image) ? null : "Less likely";
    }
    return month.format(new Date(`${sectionOf(image)}-01T00:00:00Z`));
  };
  return (image, before) => (before && sectionOf(before) === sectionOf(image) ? null : titleOf(image, before));
}

// Returns a link to another question.
function linkTo(state, text) {
  const link = document.createElement("a");
  link.href = addressOf({ ...state, view: null });
  link.textContent = text;
  return link;
}

function tell(state, answer) {
  const { results, unknown_words: unknown, corrected_words: corrected = {}, certainty } = answer;
  const text = state.q;
  const notes = []; // each a list of texts and links
  let claim = null;
  if (results.length === 0) {
    const isFiltered = conditionsIn(state.where).length;
    if (isFiltered) say("No photos match these filters.", "", { action: ["Clear filters", () => go({ where: null })] });
    else if (state.near) say("No near-duplicates found", "Copies and burst shots would appear here.");
    else sayEmpty();
  } else if (given?.file) claim = text ? CLAIMS[certainty](text, "your image and ") : "Most similar to your image";
  else if (idIn(text)) claim = "Most similar to this photo";
  else if (state.text) claim = `Words of “${text}” were read in these pictures`;
  else if (text && answer.text_hits?.length && certainty === "nothing") claim = `“${text}” was read in photos, but probably none shows it.`;
  else if (text) claim = CLAIMS[certainty](text);
  if (text && results.length && latest?.running) notes.push([`Searched only what is indexed so far (${counted(latest.images, "photo")})`]);
  if (unknown?.length) notes.push([`Unknown: ${unknown.map((word) => `“${word}”`).join(", ")}`]);
  for (const [typed, meant] of Object.entries(corrected)) notes.push([`Showing results for “${meant}” instead of “${typed}”`]);
  notes.push(withText(state, answer), asTyped(state, answer), inEnglish(state, answer), named(state, answer));
  const told = document.createElement("strong");
  told.textContent = claim;
  told.dataset.certainty = claim && text && !idIn(text) && !state.text ? certainty : "";
  const rest = notes.filter(({ length }) => length).flatMap((note, i) => (i ? [" · ", ...note] : note));
  $("status").replaceChildren(...(claim ? [told, " "] : []), ...rest);
}

// Returns a link to the English name of what was asked for in another language.
function inEnglish(state, { query_meant: meant }) {
  if (!meant) return [];
  return ["Did you mean ", linkTo({ ...state, q: meant }, meant), "?"];
}

// Returns a link to all pictures in which words of the query were read, or says that there are more.
function withText(state, { text_hits: texts = [] }) {
  if (state.text) return texts.length < MOST_TEXTS ? [] : [`Only ${MOST_TEXTS} are shown; more words find fewer`];
  return texts.length > TEXTS ? [linkTo({ ...state, text: "1" }, "Show all pictures in which this text was read")] : [];
}

// Returns a link to the photos whose files or folders are named like the query, if nothing fits it.
function named({ q, ...state }, { results, where_meant: meant }) {
  if (!q || !results.length || !meant) return [];
  return [linkTo({ ...state, where: meant }, "Show photos of that name")];
}

// Returns a link to the same search without corrections, if the query is a single sentence.
function asTyped({ q, ...state }, { query: parts = [], corrected_words: corrected = {} }) {
  if (!Object.keys(corrected).length || given?.file || parts.length !== 1 || parts[0].weight !== 1) return [];
  return [linkTo({ ...state, q: `"${q}"` }, "Search for what I typed")];
}

// Says how to add photos to an empty index.
function sayEmpty() {
  filters.hide();
  if (!served.updating) return say("No photos yet", "This index contains no images. Run seesay index on a folder of photos.");
  say("No photos yet", "Photos appear here once the folder has been scanned.", { action: UPDATE });
  if (latest) whileUpdating(latest);
}

// Shows the progress of an update. If all photos are shown from the newest on, new ones appear as they are embedded.
function whileUpdating(state) {
  const { running, done, total, error } = (latest = state);
  const { view, at, index, ...question } = read();
  const [isAll, progress] = [!Object.values(question).some(Boolean), progressOf({ done, total })];
  const isTold = running && (gallery.images.length || !isAll);
  $("indexing").textContent = isTold ? `Indexing: ${progress}. The rest cannot be found yet.` : "";
  if (!isAll) return;
  const isFurther = running && done > shownAt;
  shownAt = running ? done : 0;
  if (isFurther && !view && scrollY < innerHeight / 2) showMore();
  if (gallery.images.length) return;
  if (running) say("Indexing… photos appear here as they are found.", progress);
  else if (error) say("No photos yet", error, { action: UPDATE, role: "alert" });
}

// Shows all photos again, including new ones, without indicating that they are being loaded.
async function showMore() {
  const [before, state] = [pages, asked];
  if (!state) return; // the question failed, and the page says so
  const mine = pagesOf(state);
  const answer = await mine.more().catch(() => null);
  if (!answer?.results.length || before !== pages || asked !== state) return;
  pages = mine;
  $("message").hidden = true;
  filters.show(state.where);
  gallery.replace(mine.images, headings(state));
  showYears(mine);
}

// Returns the query image: a dropped file, or an image of the index.
async function givenBy(state) {
  const like = idIn(state.q);
  if (state.image) {
    const file = await files.find(state.image);
    if (!file) throw new Error("This browser no longer has that image. Drop it here again.");
    return { file, name: file.name || "Your image", source: URL.createObjectURL(file) };
  }
  if (!like) return null;
  const { path } = await api.facts(like);
  return { name: path, source: api.thumbnailOf({ id: like }) };
}

const letGo = (image) => image?.file && URL.revokeObjectURL(image.source);

function showGiven() {
  $("given").hidden = given === null;
  $("sentences").replaceChildren();
  if (given === null) return;
  $("given-image").onerror = () => ($("given-image").hidden = true); // rather than broken
  $("given-image").hidden = false;
  $("given-image").src = given.source;
  $("given-image").alt = given.name;
  $("given-name").textContent = given.name;
  $("point-given").hidden = !served.grounding || !given.file;
  if (given.file) showMade(given);
}

// Shows a JPEG that the server makes of a file. Browsers do not show all formats, such as HEIC, and turn some
// pictures otherwise than the server does, to which boxes refer.
async function showMade(mine) {
  const made = await files.sendable(mine.file).then(api.jpegOfFile).catch(() => null);
  if (mine !== given) return;
  if (!made) {
    $("given-image").decode().catch(() => ($("given").hidden ||= mine === given));
    return;
  }
  URL.revokeObjectURL(mine.source);
  $("given-image").src = mine.source = URL.createObjectURL(made);
  $("given-image").hidden = false;
}

async function describe(state, mine) {
  if (!served.sentences) return;
  const file = await files.sendable(given.file);
  const { results } = await api.sentences(file, { limit: 5 }, mine.leaving.signal);
  if (mine !== pages) return;
  $("sentences").replaceChildren(...results.map(({ text }) => {
    const line = document.createElement("li");
    line.append(linkTo({ index: state.index, q: text }, text));
    return line;
  }));
}

function showChips(state, parts) {
  const conditions = conditionsIn(state.where);
  const file = state.image ? given?.file : null;
  replaceIn($("chips"), [
    ...(file ? [chip(given.name, () => go({ image: null }))] : []),
    ...(file && state.q ? [chip(state.q, () => go({ q: null }))] : []),
    ...(file || parts.length < 2 ? [] : parts.map(({ text }, i) => chip(text, () => go({ q: withoutPart(parts, i) })))),
    ...(state.text ? [chip("Text read in pictures", () => go({ text: null }))] : []),
    ...(state.near ? [chip("Show near-duplicates", () => go({ near: null }))] : []),
    ...conditions.map((each) => chip(each, () => go({ where: conditions.filter((other) => other !== each).join(" ") || null }))),
  ]);
  $("chips").hidden = !$("chips").childElementCount;
}

// Replaces the elements of a list; the keyboard focus stays at the same position.
function replaceIn(list, elements) {
  const links = () => [...list.querySelectorAll("a, button")];
  const at = links().findIndex((each) => each.matches(":focus-visible"));
  list.replaceChildren(...elements);
  if (at >= 0) (links().slice(0, at + 1).at(-1) ?? $("sentence")).focus();
}

// Lists links to the years of all photos by date, and to the months of the year that was jumped to.
function showYears({ months = [] }) {
  const years = new Map();
  for (const { name, images } of months) years.set(name.slice(0, 4), (years.get(name.slice(0, 4)) ?? 0) + images);
  const link = (at, text, images) => {
    const made = document.createElement("a");
    made.href = addressOf({ ...read(), at, view: null });
    made.dataset.at = at;
    made.textContent = text;
    made.title = counted(images, "image");
    made.addEventListener("click", () => (jumped = null)); // also a second time
    return made;
  };
  const short = new Intl.DateTimeFormat("en", { month: "short", timeZone: "UTC" });
  const nameOf = (month) => short.format(new Date(`${month}-01T00:00:00Z`));
  replaceIn($("years"), [...years].flatMap(([year, images]) => {
    const within = jumped?.startsWith(year) ? months.filter(({ name }) => name.startsWith(year)) : [];
    return [link(year, year, images), ...within.map((each) => link(each.name, nameOf(each.name), each.images))];
  }));
  $("years").hidden = years.size < 2 && months.length < 2;
}

// Marks the year and the month of the first image in sight.
function markYear({ time }) {
  for (const link of $("years").children) {
    const isHere = Boolean(time?.startsWith(link.dataset.at));
    if (isHere && link.getAttribute("aria-current") !== "true") link.scrollIntoView({ block: "nearest", inline: "nearest" });
    link.setAttribute("aria-current", isHere);
  }
}

// `action` is a button's text, and what the button does. Only failures (`role` "alert") interrupt a screen reader.
function say(title, text, { action = null, role = "status" } = {}) {
  const [heading, body, button] = $("message").children;
  $("message").setAttribute("role", role);
  heading.textContent = title;
  body.textContent = text;
  button.hidden = !action;
  if (action) [button.textContent, button.onclick] = action;
  $("message").hidden = false;
}

function fail(failure) {
  asked = null; // so that the same question can be asked again
  showChips(read(), []);
  viewer.close();
  gallery.clear();
  $("status").textContent = "";
  $("scores").hidden = true;
  const isFiltered = failure.status === 422 && read().where;
  const retry = failure.status === undefined || failure.status >= 500 ? ["Try again", () => render(true)] : null;
  const action = isFiltered ? ["Clear filters", () => go({ where: null })] : retry;
  say(failure.status === 422 && !given?.file ? "Check what you typed" : "Something went wrong", failure.message, { action, role: "alert" });
}

async function takeFile(file) {
  if (!file) return;
  if (!files.mayBeImage(file)) {
    pages.leave();
    fail(Object.assign(new Error(api.NOT_AN_IMAGE), { status: 415 }));
    return;
  }
  go({ ...ALL, where: read().where, image: await files.keep(file) });
}

// Loads what the server says about the index that the address names.
async function look(state) {
  api.use(state.index);
  selection.use(state.index);
  let indexes;
  try {
    indexes = await api.indexes();
  } catch (failure) {
    if (read().index !== state.index) return;
    served = {};
    if (asked === state) fail(failure);
    return;
  }
  if (read().index !== state.index) return;
  if (!state.index && indexes[0]?.is_default === false) api.use(indexes[0].index); // the default cannot be read
  served = panel.take(indexes) ?? {};
  $("point").hidden = !served.grounding;
  $("indexing").textContent = "";
  latest = null;
  panel.follow().catch(() => {}); // another client may have started an update
  await stacks.learn(served.images);
}

function showScores(wanted) {
  keep(SCORES, wanted ? "1" : "");
  document.body.classList.toggle("scored", wanted);
  $("scores").setAttribute("aria-pressed", wanted);
}

$("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = $("sentence").value.trim();
  // Only the server knows which words are conditions; most queries have no colon and need not be asked about.
  const split = text.includes(":") ? await api.typed(text).catch(fail) : { q: text, where: "" };
  if (!split) return;
  const { q } = split;
  $("sentence").value = q;
  const where = [...new Set([...conditionsIn(read().where), ...conditionsIn(split.where)])].join(" ");
  go({ q: q || null, where: where || null, near: null, text: null, at: null, view: null });
});
$("scores").addEventListener("click", () => showScores(!document.body.classList.contains("scored")));
$("choose").addEventListener("click", () => $("file").click());
$("file").addEventListener("change", (event) => {
  takeFile(event.target.files[0]);
  event.target.value = "";
});
$("point-given").addEventListener("click", () => {
  viewer.show({ file: given.file, path: given.name, source: given.source });
  viewer.pointer.input.focus();
});
$("open-panel").addEventListener("click", () => panel.open().catch((failure) => ($("counts").textContent = failure.message)));
addEventListener("statechange", () => render());
// Links within the page change its state instead of reloading it.
addEventListener("click", (event) => {
  const link = event.target.closest("a[href]");
  const isPlain = !event.defaultPrevented && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
  if (!link || !isPlain || link.download) return;
  const there = new URL(link.href);
  if (there.origin !== location.origin || there.pathname !== location.pathname) return;
  event.preventDefault();
  const next = Object.fromEntries(Object.keys(read()).map((name) => [name, there.searchParams.get(name)]));
  go(link.classList.contains("mark") ? { ...next, index: read().index } : next);
});

$("sentence").addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown" && gallery.images.length) {
    event.preventDefault();
    gallery.focus(0);
  } else if (event.key === "Escape") {
    if ($("sentence").value) $("sentence").value = "";
    else $("sentence").blur();
  }
});
$("open-help").addEventListener("click", () => $("help").showModal());
$("help").addEventListener("click", (event) => (event.target.matches("dialog") || event.target.closest("[data-do=close]")) && $("help").close());
addEventListener("keydown", (event) => {
  const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey;
  if (event.key === "?" && isPlain && !event.target.matches("input") && !$("help").open) $("help").showModal();
  const field = $("viewer").open ? viewer.pointer.input : $("sentence");
  if (event.key === "/" && isPlain && !event.target.matches("input")) {
    event.preventDefault();
    field.focus();
    field.select();
  }
});

// Files dragged in from elsewhere; `dragenter` and `dragleave` fire for every element on the way.
let depth = 0;
const holdsFiles = (event) => event.dataTransfer?.types.includes("Files");
function dragging(by) {
  depth = by ? Math.max(0, depth + by) : 0;
  document.body.classList.toggle("dropping", depth > 0);
}
addEventListener("dragenter", (event) => holdsFiles(event) && dragging(1));
addEventListener("dragleave", (event) => holdsFiles(event) && dragging(-1));
addEventListener("dragover", (event) => holdsFiles(event) && event.preventDefault());
addEventListener("drop", (event) => {
  dragging(0);
  if (!holdsFiles(event)) return;
  event.preventDefault();
  takeFile(event.dataTransfer.files[0]);
});
addEventListener("paste", (event) => {
  const file = event.clipboardData?.files[0];
  if (file) takeFile(file);
});

showScores(recall(SCORES) === "1");
render(true);

// The page: a question (a sentence, an image, or both) comes in, its answers are shown. The address holds the
// sentence, the filter, and whether the answers are re-ranked.

import * as api from "./api.js";
import { Gallery } from "./gallery.js";
import { Viewer } from "./viewer.js";

const FIRST = 60;
const MOST = 200;
const UPLOAD_BYTES = 20 * 2 ** 20;
const EXAMPLES = [
  "a cat looking at the camera",
  "a cup of coffee on a table",
  "people walking in a street",
  "flowers in bright colours",
];

const $ = (id) => document.getElementById(id);
const sentence = $("sentence");
const rerank = $("rerank");
const count = new Intl.NumberFormat("en");
let asking = new AbortController();
let question = null; // { sentence, file }, one of which may be missing
let conditions = []; // of the filter, such as "taken:2019"
const CONDITION = /\w+:(?:"[^"]*"|\S+)|\S+/g;

const gallery = new Gallery($("gallery"), (i) => viewer.open(gallery.images, i, question?.sentence));
const viewer = new Viewer($("viewer"), {
  onSimilar: async (image) => {
    try {
      takeFile(await api.original(image));
    } catch (failure) {
      fail(failure);
    }
  },
  onClose: (i) => gallery.focus(i),
});

function askWith(next, k = FIRST) {
  if (next.file && next.file !== question?.file) showGiven(next.file);
  question = next;
  document.body.classList.remove("welcome");
  $("message").hidden = true;
  $("more").hidden = true;
  $("given").hidden = !next.file;
  document.title = next.sentence ? `${next.sentence} · seesay` : "seesay";
  sentence.value = next.sentence ?? "";
  if (next.file && next.file.size > UPLOAD_BYTES) {
    asking.abort();
    fail(new Error("This image is larger than 20 MB. Choose a smaller one."), false);
    return;
  }
  answer(next, k);
}

async function answer(asked, k) {
  const { sentence: text, file } = asked;
  asking.abort();
  const mine = (asking = new AbortController());
  gallery.element.classList.add("stale");
  const slow = setTimeout(() => ($("busy").hidden = false), 120);
  try {
    const again = rerank.checked && Boolean((await served).reranking);
    const [images, described] = await Promise.all([
      api.search(asked, k, conditions.join(" "), again && !file, mine.signal),
      file && !text && served.then((holds) => (holds.sentences ? api.sentences(file, 5, again, mine.signal) : null)),
    ]);
    show(images, described, asked, k);
  } catch (failure) {
    if (failure.name !== "AbortError") fail(failure);
  } finally {
    clearTimeout(slow);
    if (mine === asking) {
      $("busy").hidden = true;
      gallery.element.classList.remove("stale");
    }
  }
}

function show({ results, milliseconds, reranking, unknown_words: unknown, nothing_fits: nothing, query }, described, { sentence: text, file }, k) {
  gallery.show(results);
  showChips(query, file);
  showSentences(described?.results ?? []);
  const found = `${count.format(results.length)} ${results.length === 1 ? "image" : "images"}`;
  const what = text ? `best for ${file ? "your image and " : ""}“${text}”` : "most like yours";
  const facts = [`${found} ${what}`, `${milliseconds.toFixed(0)} ms`, ...told(reranking), ...told(described?.reranking, "sentences ")];
  if (nothing) facts.push("nothing fits well");
  if (unknown.length) facts.push(`not known: ${unknown.map((word) => `“${word}”`).join(", ")}`);
  $("status").textContent = results.length ? facts.join(" · ") : "";
  $("more").hidden = results.length < k || k >= MOST;
  if (!results.length && conditions.length) {
    say("Nothing passes the filter", "Take a condition away.");
  } else if (!results.length) {
    say("Nothing to find yet", "The index holds no images. Run seesay index on a folder of photos.");
  }
}

function* told(did, what = "") {
  if (!did) return;
  yield `${count.format(did.compared)} ${what}re-ranked in ${did.milliseconds.toFixed(0)} ms`;
  if (did.left) yield `${count.format(did.left)} unreadable, listed last`;
}

// A chip for each part of a query of several, and for each condition of the filter; a click takes it away.
function showChips(query, file) {
  const own = file ? [] : query;
  const parts = own.length < 2 ? [] : own.map(({ text }, i) => chip(text, () => {
    const others = own.filter((_, j) => j !== i).map((part) => part.text);
    goTo(others.join(" ").replace(/^\+ /, ""));
  }));
  const filters = conditions.map((condition) => chip(condition, () => {
    filterBy(conditions.filter((each) => each !== condition));
  }));
  $("chips").replaceChildren(...parts, ...filters);
  $("asked").hidden = false;
}

function chip(text, onRemove) {
  const item = document.createElement("li");
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = `${text} ×`;
  button.setAttribute("aria-label", `Take away ${text}`);
  button.addEventListener("click", onRemove);
  item.append(button);
  return item;
}

function filterBy(next) {
  conditions = next;
  if (question?.file) askWith(question);
  else if (question) goTo(question.sentence);
}

function showGiven(file) {
  const picture = $("given-image");
  URL.revokeObjectURL(picture.src);
  picture.src = URL.createObjectURL(file);
  $("given-name").textContent = file.name || "Your image";
  $("sentences").replaceChildren();
  scrollTo({ top: 0 });
}

function showSentences(answers) {
  const lines = answers.map(({ text, score, shortlist_rank: before }) => {
    const line = document.createElement("li");
    const number = document.createElement("b");
    number.textContent = score.toFixed(2);
    if (before) number.title = `was ${before}`;
    line.append(number, questionLink(text));
    return line;
  });
  $("sentences").replaceChildren(...lines);
}

function addressOf(text) {
  const asked = new URLSearchParams({ q: text });
  if (conditions.length) asked.set("where", conditions.join(" "));
  if (rerank.checked) asked.set("rerank", 1);
  return `./?${asked}`;
}

function questionLink(text) {
  const link = document.createElement("a");
  link.href = addressOf(text);
  link.textContent = text;
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    goTo(text);
  });
  return link;
}

function say(title, text, retry = false) {
  const [heading, body, button] = $("message").children;
  heading.textContent = title;
  body.textContent = text;
  button.hidden = !retry;
  $("message").hidden = false;
}

function fail(failure, retry = true) {
  gallery.show([]);
  showSentences([]);
  if (question) showChips([], null);
  $("status").textContent = "";
  $("more").hidden = true;
  say("That did not work", failure.message, retry);
}

function goTo(text) {
  history.pushState(null, "", addressOf(text));
  askWith({ sentence: text });
}

function takeFile(file) {
  if (!file) return;
  if (location.search) history.pushState(null, "", "./");
  askWith({ file });
}

function fromAddress() {
  const asked = new URLSearchParams(location.search);
  const text = asked.get("q")?.trim();
  rerank.checked = asked.has("rerank");
  conditions = asked.get("where")?.match(CONDITION) ?? [];
  if ($("viewer").open) $("viewer").close();
  if (text) {
    askWith({ sentence: text });
    return;
  }
  asking.abort();
  question = null;
  gallery.show([]);
  document.title = "seesay";
  document.body.classList.add("welcome");
  for (const id of ["given", "message", "more", "asked"]) $(id).hidden = true;
  sentence.value = "";
  sentence.focus();
}

async function greet() {
  $("examples").replaceChildren(
    ...EXAMPLES.map((text) => {
      const item = document.createElement("li");
      item.append(questionLink(text));
      return item;
    }),
  );
  try {
    const holds = await api.status();
    const images = holds.images === 1 ? "1 image" : `${count.format(holds.images)} images`;
    $("about").textContent = `${images}, searched by sentence or by image. Drop one anywhere.`;
    $("not-read").textContent = holds.not_read.length ? `Not read: ${holds.not_read.join("; ")}.` : "";
    for (const id of ["point", "point-given"]) $(id).hidden = !holds.grounding;
    $("rerank-switch").hidden = !holds.reranking;
    return holds;
  } catch (failure) {
    $("about").textContent = failure.message;
    return {};
  }
}

$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = sentence.value.trim();
  if (question?.file) askWith({ file: question.file, sentence: text });
  else if (text) goTo(text);
});
$("filter").addEventListener("submit", (event) => {
  event.preventDefault();
  const added = $("where").value.match(CONDITION) ?? [];
  $("where").value = "";
  if (added.length) filterBy([...new Set([...conditions, ...added])]);
});
rerank.addEventListener("change", () => {
  if (question?.file) askWith(question);
  else if (question) goTo(question.sentence);
});
$("choose").addEventListener("click", () => $("file").click());
$("file").addEventListener("change", (event) => {
  takeFile(event.target.files[0]);
  event.target.value = "";
});
$("point-given").addEventListener("click", () => {
  const { src } = $("given-image");
  viewer.open([{ file: question.file, path: $("given-name").textContent, image: src, thumbnail: src }], 0);
  viewer.pointer.input.focus();
});
$("more").addEventListener("click", () => askWith(question, MOST));
$("message").querySelector("button").addEventListener("click", () => question && askWith(question));
addEventListener("popstate", fromAddress);

sentence.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown" && gallery.images.length) {
    event.preventDefault();
    gallery.focus(0);
  } else if (event.key === "Escape") {
    if (sentence.value) sentence.value = "";
    else sentence.blur();
  }
});
addEventListener("keydown", (event) => {
  const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
  const field = $("viewer").open ? viewer.pointer.input : sentence;
  if (event.key === "/" && plain && event.target !== field) {
    event.preventDefault();
    field.focus();
    field.select();
  }
});

// Files dragged in from elsewhere; `enter` and `leave` come for every element on the way.
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
  if ($("viewer").open) $("viewer").close();
  takeFile(event.dataTransfer.files[0]);
});
addEventListener("paste", (event) => {
  const file = event.clipboardData?.files[0];
  if (file) takeFile(file);
});

const served = greet();
fromAddress();

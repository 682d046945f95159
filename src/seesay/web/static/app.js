// The page: a question (a sentence or an image) comes in, its answers are shown. The address holds the sentence,
// and whether its answers are re-ranked.

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
let question = null; // { sentence } or { file }

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
  if (next.file && next !== question) showGiven(next.file);
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

async function answer({ sentence: text, file }, k) {
  asking.abort();
  const mine = (asking = new AbortController());
  gallery.element.classList.add("stale");
  const slow = setTimeout(() => ($("busy").hidden = false), 120);
  try {
    const again = rerank.checked && Boolean((await served).reranking);
    const [images, described] = await Promise.all([
      file ? api.similar(file, k, mine.signal) : api.search(text, k, again, mine.signal),
      file && served.then((holds) => (holds.sentences ? api.sentences(file, 5, again, mine.signal) : null)),
    ]);
    show(images, described, text, k);
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

function show({ results, milliseconds, reranking, unknown_words: unknown }, described, text, k) {
  gallery.show(results);
  showSentences(described?.results ?? []);
  const found = `${count.format(results.length)} ${results.length === 1 ? "image" : "images"}`;
  const what = text ? `best for “${text}”` : "most like yours";
  const facts = [`${found} ${what}`, `${milliseconds.toFixed(0)} ms`, ...told(reranking), ...told(described?.reranking, "sentences ")];
  if (unknown.length) facts.push(`not known: ${unknown.map((word) => `“${word}”`).join(", ")}`);
  $("status").textContent = results.length ? facts.join(" · ") : "";
  $("more").hidden = results.length < k || k >= MOST;
  if (!results.length) {
    say("Nothing to find yet", "The index holds no images. Run seesay index on a folder of photos.");
  }
}

function* told(did, what = "") {
  if (!did) return;
  yield `${count.format(did.compared)} ${what}re-ranked in ${did.milliseconds.toFixed(0)} ms`;
  if (did.left) yield `${count.format(did.left)} unreadable, listed last`;
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

const addressOf = (text) => `/?${new URLSearchParams(rerank.checked ? { q: text, rerank: 1 } : { q: text })}`;

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
  if (location.search) history.pushState(null, "", "/");
  askWith({ file });
}

function fromAddress() {
  const asked = new URLSearchParams(location.search);
  const text = asked.get("q")?.trim();
  rerank.checked = asked.has("rerank");
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
  for (const id of ["given", "message", "more"]) $(id).hidden = true;
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
  if (text) goTo(text);
});
rerank.addEventListener("change", () => {
  if (question?.sentence) goTo(question.sentence);
  else if (question) askWith(question);
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

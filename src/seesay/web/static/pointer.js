// Grounding in the large image: the phrases of a sentence and their boxes, with a colour for each phrase.

import * as api from "./api.js";
import { sendable } from "./files.js";

const COLOURS = ["#e69f00", "#56b4e9", "#009e73", "#f0e442", "#d55e00", "#cc79a7", "#0072b2"]; // distinct for every colour vision
const colourOf = (i) => COLOURS[i % COLOURS.length];
const scoreOf = (box) => (box.probability ?? box.score).toFixed(2);

export class Pointer {
  constructor(figure) {
    this.figure = figure;
    this.picture = figure.querySelector("img");
    this.boxes = figure.querySelector("#boxes");
    this.form = figure.querySelector("#point");
    this.input = this.form.querySelector("input");
    this.told = figure.querySelector("#pointed");
    this.image = null;
    this.found = null;
    this.sentence = ""; // once submitted, also used for the following images
    this.asking = new AbortController();
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.sentence = this.input.value.trim();
      this.point();
    });
    const layout = () => this.layout();
    this.picture.addEventListener("load", layout);
    const sizes = new ResizeObserver(layout);
    sizes.observe(figure);
    sizes.observe(this.picture);
    for (const [type, on] of Object.entries({ pointerover: true, pointerout: false, focusin: true, focusout: false })) {
      figure.addEventListener(type, (event) => this.light(on ? event.target.closest("[data-phrase]") : null));
    }
  }

  // Fills in the sentence that led to the image, without submitting it.
  start(sentence) {
    this.sentence = "";
    if (sentence) this.input.value = sentence;
  }

  show(image) {
    this.image = image;
    this.clear();
    this.point();
  }

  clear() {
    this.asking.abort();
    this.found = null;
    this.boxes.replaceChildren();
    this.told.replaceChildren();
  }

  async point() {
    this.clear();
    if (!this.sentence || this.form.hidden) return;
    const [mine, sentence] = [(this.asking = new AbortController()), this.sentence];
    const slow = setTimeout(() => (this.told.textContent = "Searching…"), 150);
    try {
      const { id, file } = this.image;
      const asked = file ? { file: await sendable(file) } : { id };
      const found = await api.ground(asked, sentence, mine.signal);
      if (mine === this.asking) this.answer(found, sentence);
    } catch (failure) {
      if (mine === this.asking && failure.name !== "AbortError") this.told.textContent = failure.message;
    } finally {
      clearTimeout(slow);
    }
  }

  answer(found, sentence) {
    this.found = found;
    const absent = found.phrases.filter(({ boxes, fits }) => boxes.length && !fits);
    const missing = absent.map(({ phrase }) => ` · “${phrase}” is probably not in this image; the box is the best guess`);
    this.told.replaceChildren(...this.coloured(sentence), ...missing);
    // Small boxes are above large ones, so that the pointer can reach each of them.
    const area = ({ box: [x1, y1, x2, y2] }) => (x2 - x1) * (y2 - y1);
    const all = found.phrases.flatMap((phrase, i) => phrase.boxes.map((box) => ({ phrase, i, box })));
    all.sort((a, b) => area(b.box) - area(a.box));
    this.boxes.replaceChildren(...all.map((each) => this.frame(each)));
    this.layout();
  }

  *coloured(sentence) {
    const letters = [...sentence]; // the server counts code points
    let at = 0;
    for (const [i, phrase] of this.found.phrases.entries()) {
      yield letters.slice(at, phrase.start).join("");
      const mark = document.createElement("mark");
      mark.textContent = letters.slice(phrase.start, phrase.end).join("");
      mark.classList.toggle("unknown", !phrase.known);
      const [best] = phrase.boxes;
      mark.title = !phrase.known ? "contains no known words" : best ? `Score ${scoreOf(best)}` : "";
      mark.tabIndex = 0;
      mark.dataset.phrase = i;
      mark.style.setProperty("--phrase", colourOf(i));
      yield mark;
      at = phrase.end;
    }
    yield letters.slice(at).join("");
  }

  frame({ phrase, i, box }) {
    const { width, height } = this.found;
    const [x1, y1, x2, y2] = box.box;
    const share = (part, whole) => `${(100 * part) / whole}%`;
    const frame = document.createElement("div");
    frame.className = "box";
    frame.dataset.phrase = i;
    frame.style.setProperty("--phrase", colourOf(i));
    frame.style.left = share(x1, width);
    frame.style.top = share(y1, height);
    frame.style.width = share(x2 - x1, width);
    frame.style.height = share(y2 - y1, height);
    const label = document.createElement("span");
    label.textContent = phrase.phrase;
    const score = document.createElement("b");
    score.textContent = scoreOf(box);
    label.append(" ", score);
    label.classList.toggle("right", x1 > width / 2);
    frame.append(label);
    return frame;
  }

  // Marks lines of text, whose boxes are in fractions of the picture, unless phrases are marked.
  mark(lines, { width, height }) {
    if (this.told.childNodes.length) return;
    this.found = { width, height };
    const frames = lines.map(({ text: phrase, x1, y1, x2, y2 }) => {
      const box = [x1 * width, y1 * height, x2 * width, y2 * height];
      return this.frame({ phrase: { phrase }, i: 0, box: { box, score: 1 } });
    });
    for (const frame of frames) {
      frame.classList.add("text");
      frame.firstElementChild.hidden = true;
    }
    this.boxes.replaceChildren(...frames);
    this.layout();
  }

  light(element) {
    const number = element?.dataset.phrase;
    for (const other of this.figure.querySelectorAll("[data-phrase]")) {
      other.classList.toggle("lit", other.dataset.phrase === number);
      other.classList.toggle("dim", number !== undefined && other.dataset.phrase !== number);
    }
  }

  // Places the boxes over the picture itself, which may be smaller than its element.
  layout() {
    if (!this.found) return;
    const { width, height } = this.found;
    const [within, around] = [this.picture, this.figure].map((element) => element.getBoundingClientRect());
    const scale = Math.min(within.width / width, within.height / height);
    this.boxes.style.left = `${within.left - around.left + (within.width - width * scale) / 2}px`;
    this.boxes.style.top = `${within.top - around.top + (within.height - height * scale) / 2}px`;
    this.boxes.style.width = `${width * scale}px`;
    this.boxes.style.height = `${height * scale}px`;
    for (const frame of this.boxes.children) {
      const label = frame.firstElementChild;
      label.classList.toggle("above", frame.offsetTop >= label.offsetHeight);
    }
  }
}

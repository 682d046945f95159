// One large image in a dialog, in which the browser keeps the focus. The address says which image it is.

import * as api from "./api.js";
import { inFolder } from "./filters.js";
import { scoreOf } from "./gallery.js";
import { Pointer } from "./pointer.js";
import { ALL, addressOf, go, leaveView, read } from "./state.js";
import { Zoom } from "./zoom.js";

const AHEAD = 20; // images before the last loaded one, from which more are fetched
const STEP = 80; // pixels by which an arrow key moves a zoomed picture
const EXIF = {
  camera: "Camera",
  lens: "Lens",
  exposure: "Exposure",
  aperture: "Aperture",
  iso: "ISO",
  focal: "Focal length",
};

// The date of a photo whose camera did not write one, and where it is from.
function datedBy({ time, dated_by: by }) {
  const date = new Intl.DateTimeFormat("en", { dateStyle: "long" }).format(new Date(time));
  return by === "name" ? `${date}, by the file’s name` : `${date}, when the file was changed`;
}

export class Viewer {
  // `imagesNow()` returns the images to step through; `placeInStack(image)` is a text or null; `onClose(image)` is called when the dialog is closed.
  constructor(dialog, { imagesNow, placeInStack, onEnd, onMissing, onClose }) {
    Object.assign(this, { dialog, imagesNow, placeInStack, onEnd, onMissing, onClose, steps: Promise.resolve() });
    const find = (selector) => dialog.querySelector(selector);
    this.picture = find("figure img");
    this.path = find("#viewer-path");
    this.facts = find("#viewer-facts");
    this.details = find("#details");
    this.pointer = new Pointer(find("figure"));
    this.zoom = new Zoom(find("figure"), this.picture, {
      onSwipe: (direction) => (direction ? this.step(direction) : this.leave()),
      onTap: () => this.dialog.classList.toggle("bare"),
      onChange: () => this.pointer.layout(),
    });
    this.image = null;
    this.asking = new AbortController();
    this.actions = {
      previous: () => this.step(-1),
      next: () => this.step(1),
      close: () => this.leave(),
      similar: () => go({ ...ALL, q: `id:${this.image.id}` }),
      details: () => this.showDetails(this.details.hidden),
      path: () => this.copy(this.image.path),
      link: () => this.copy(new URL(addressOf({ index: read().index, view: this.image.id }), location.href).href),
    };
    dialog.addEventListener("click", (event) => this.onClick(event));
    dialog.addEventListener("keydown", (event) => this.onKey(event));
    dialog.addEventListener("cancel", (event) => {
      event.preventDefault(); // Esc goes back in the history, which closes it
      this.leave();
    });
  }

  leave() {
    if (this.image.file) this.close(); // which has no address of its own
    else leaveView();
  }

  // Shows an image of the index, { id, path, width, height }, or a file, { file, path, source }.
  show(image, sentence) {
    if (!this.dialog.open) {
      this.dialog.classList.remove("bare");
      this.pointer.start(sentence);
      this.dialog.showModal();
      this.dialog.querySelector('[data-do="close"]').focus();
    }
    this.image = image;
    this.zoom.reset();
    this.picture.onerror = () => {
      this.picture.onerror = null;
      if (!image.file) this.showThumbnail(image);
    };
    this.picture.removeAttribute("src"); // so that the previous image is not shown with this one's name
    this.picture.src = image.file ? image.source : api.viewOf(image);
    this.picture.alt = image.path;
    this.path.textContent = image.path;
    this.facts.textContent = [image.width && `${image.width} × ${image.height}`, this.placeInStack(image)].filter(Boolean).join(" · ");
    for (const button of this.dialog.querySelectorAll("[data-of-index]")) button.hidden = Boolean(image.file);
    const download = this.dialog.querySelector('[data-do="download"]');
    download.href = image.file ? image.source : api.originalOf(image);
    download.download = image.path.split("/").at(-1);
    this.showNeighbours();
    this.pointer.show(image);
    this.showDetails(!this.details.hidden);
  }

  // For an image that cannot be shown: shows its thumbnail, and says why.
  async showThumbnail(image) {
    this.picture.src = api.thumbnailOf(image);
    const known = await api.facts(image.id).catch(() => ({}));
    const why = known.type === null ? "The file is gone or its disk is not connected; this is its thumbnail." : "This file cannot be shown.";
    if (this.image === image) this.facts.textContent = why;
  }

  // Updates the buttons for the previous and the next image; more images may have been loaded.
  showNeighbours() {
    const [images, at] = this.place();
    this.dialog.querySelector('[data-do="previous"]').disabled = at <= 0;
    this.dialog.querySelector('[data-do="next"]').disabled = at < 0 || at >= images.length - 1;
    if (at >= 0 && at >= images.length - AHEAD) this.onEnd();
  }

  place() {
    const images = this.imagesNow();
    return [images, images.findIndex((each) => each.id === this.image?.id)];
  }

  // Steps one after the other, so that no key is lost while an image is asked for.
  step(by) {
    this.steps = this.steps.then(() => this.move(by)).catch(() => {}); // what cannot be loaded is told elsewhere
  }

  async move(by) {
    const [images, at] = this.place();
    const there = at < 0 ? undefined : images[at + by];
    if (there && there.id === undefined) await this.onMissing([there]);
    if (there?.id !== undefined) go({ view: there.id }, { replace: true });
  }

  close() {
    if (!this.dialog.open) return;
    this.asking.abort();
    this.pointer.clear();
    this.dialog.close();
    this.onClose(this.image);
  }

  async showDetails(wanted) {
    this.asking.abort();
    this.details.hidden = !wanted || Boolean(this.image.file);
    this.dialog.querySelector('[data-do="details"]').setAttribute("aria-expanded", !this.details.hidden);
    this.pointer.mark([], this.image);
    if (this.details.hidden) return;
    this.asking = new AbortController();
    this.details.replaceChildren(); // so that those of the previous image are not shown with this one
    try {
      const known = await api.facts(this.image.id, this.asking.signal);
      this.pointer.mark(known.text, known);
      const { taken, ...others } = known.facts;
      const date = new Intl.DateTimeFormat("en", { dateStyle: "long", timeStyle: "short" });
      const size = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
      const [bytes, unit] = known.bytes < 1e6 ? [known.bytes / 1e3, "kB"] : [known.bytes / 1e6, "MB"];
      this.list([
        ["File", known.path],
        ["Taken", taken && date.format(new Date(taken))],
        ["Date", known.dated_by !== "camera" && datedBy(known)],
        ["Size", `${known.width} × ${known.height}, ${size.format(bytes)} ${unit}`],
        ...Object.entries(others).map(([name, value]) => [EXIF[name] ?? name, value]),
        [this.image.probability === undefined || this.image.probability === null ? "Similarity" : "Probability", scoreOf(this.image)],
        ["Text read", known.text.map(({ text }) => text).join("\n")],
        ["Show", this.links(known)],
      ]);
    } catch (failure) {
      if (failure.name !== "AbortError") this.list([["File", failure.message]]);
    }
  }

  list(facts) {
    const shown = facts.filter(([, value]) => value).map(([name, value]) => {
      const [term, text] = [document.createElement("dt"), document.createElement("dd")];
      term.textContent = name;
      text.append(...[value].flat());
      return [term, text];
    });
    this.details.replaceChildren(...shown.flat());
  }

  // Returns links to the images of the same folder and of the same day.
  links({ path, time }) {
    const folder = path.split("/").slice(0, -1).join("/");
    const wheres = { "this folder": folder && !folder.includes('"') && inFolder(folder), "this day": `taken:${time.slice(0, 10)}` };
    return Object.entries(wheres).filter(([, where]) => where).flatMap(([text, where], i) => {
      const link = document.createElement("a");
      link.href = addressOf({ index: read().index, where });
      link.textContent = text;
      return i ? [" · ", link] : [link];
    });
  }

  async copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      this.facts.textContent = "Copied";
    } catch {
      this.facts.textContent = text; // without HTTPS, browsers do not allow writing to the clipboard
    }
  }

  onKey(event) {
    if (event.target.matches("input") || event.ctrlKey || event.metaKey || event.altKey) return;
    const moves = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    const keys = { ArrowLeft: "previous", ArrowRight: "next", i: "details", I: "details" };
    if (this.zoom.scale > 1 && moves[event.key]) this.zoom.move(...moves[event.key].map((each) => each * STEP));
    else if (keys[event.key]) this.actions[keys[event.key]]();
    else if (event.key === "+" || event.key === "-") this.zoom.step(event.key === "+" ? 1.5 : 1 / 1.5);
  }

  onClick(event) {
    const button = event.target.closest("button[data-do]");
    if (button) this.actions[button.dataset.do]();
    else if (event.target.matches("dialog, figure, nav")) this.leave();
  }
}

// A justified gallery: rows of images that fill the width, each image with its own aspect ratio. Only rows near the window
// are in the document, so that a hundred thousand images scroll like a hundred.

import { thumbnailOf } from "./api.js";
import { Loads } from "./loads.js";
import { counted } from "./words.js";

const NEAR = 1.5; // windows above and below in which rows are drawn
const HEADING = 52; // pixels
const GAP = 8;
const LONG = 500; // milliseconds of a press that selects, on a touch screen
const SETTLED = 60; // milliseconds of rest after which missing images are asked for
const AGAIN = 1000; // milliseconds until a failed thumbnail is requested once more

// Splits images into rows: { height, widths } in pixels. Only the last row may be unfilled.
export function rows(ratios, width, target, gap) {
  const result = [];
  let row = [];
  let sum = 0;
  for (const ratio of ratios) {
    row.push(ratio);
    sum += ratio;
    const room = width - gap * (row.length - 1);
    if (sum * target >= room) {
      result.push({ height: room / sum, widths: row.map((each) => (each * room) / sum) });
      row = [];
      sum = 0;
    }
  }
  if (row.length) result.push({ height: target, widths: row.map((each) => each * target) });
  return result;
}

const shapeOf = ({ width, height }) => Math.min(Math.max(width / height || 1, 0.4), 3.5);

// The probability as the command line prints it; without one, the cosine.
export const scoreOf = ({ score, probability }) => (probability ?? score)?.toFixed(3) ?? "";

// Returns the height of what stays at the top of the window.
function stuck() {
  const heights = [...document.querySelectorAll("body > header, #asked")].map((each) =>
    getComputedStyle(each).position === "sticky" ? each.offsetHeight : 0);
  return heights.reduce((sum, height) => sum + height, 0);
}

export class Gallery {
  // `linkOf(image)`, `isPicked(image)`, `isPicking()`, `onOpen(i)`, `onPick(i, toThere)`, `onStack(i)`, `hiddenBy(image)`: those beneath it,
  // `onEnd()` when more images are needed, `onMissing(images)` when images without an id are in sight, `onSight(image)`: the first one in sight.
  constructor(element, options) {
    Object.assign(this, options);
    this.element = element;
    this.loads = new Loads();
    this.clear();
    new ResizeObserver(() => this.layout()).observe(element);
    addEventListener("scroll", () => this.draw(), { passive: true });
    element.addEventListener("keydown", (event) => this.onKey(event));
    element.addEventListener("click", (event) => this.onClick(event));
    element.addEventListener("pointerdown", (event) => this.onPress(event));
    for (const end of ["pointerup", "pointercancel", "pointermove"]) {
      element.addEventListener(end, (event) => this.onRelease(event));
    }
    element.addEventListener("contextmenu", (event) => this.pressed && event.preventDefault());
    element.addEventListener("focusin", (event) => {
      const tile = event.target.closest(".tile");
      if (tile) this.makeTabStop(Number(tile.dataset.i));
    });
  }

  clear() {
    this.images = [];
    this.headingOf = () => null;
    for (const i of this.drawn?.keys() ?? []) this.removeTile(i);
    this.drawn = new Map();
    this.at = 0; // the tab stop, which the arrow keys move
    this.layout();
  }

  // Shows images under headings: `headingOf(image, previous)` is a text or null.
  show(images, headingOf) {
    const focused = this.element.contains(document.activeElement) ? this.images[this.at]?.id : undefined;
    this.clear();
    this.images = images;
    this.headingOf = headingOf;
    this.layout();
    if (focused !== undefined) this.focus(Math.max(0, images.findIndex(({ id }) => id === focused)));
  }

  // Replaces the images, for example when there are new ones. Drawn tiles of images that remain stay, with the focus.
  replace(images, headingOf) {
    const keyOf = (image) => image?.id ?? image; // an image that has come since has kept its object
    const places = new Map(images.map((image, i) => [keyOf(image), i]));
    const placeOf = (i) => places.get(keyOf(this.images[i]));
    const isFocused = this.element.contains(document.activeElement);
    const top = this.topInSight();
    const [anchor, before] = [this.images[top?.from], top && this.topOf(top)];
    for (const [i, tile] of [...this.drawn]) {
      if (placeOf(i) === undefined || tile.classList.contains("missing")) this.removeTile(i);
    }
    this.drawn = new Map([...this.drawn].map(([i, tile]) => [placeOf(i), tile]));
    for (const [i, tile] of this.drawn) tile.dataset.i = i;
    this.at = placeOf(this.at) ?? 0;
    Object.assign(this, { images, headingOf });
    this.layout();
    const line = anchor && scrollY > 0 && this.lines[this.lineOf(places.get(keyOf(anchor)))];
    if (line) scrollBy({ top: this.topOf(line) - before, behavior: "instant" }); // what is in sight stays there
    this.draw();
    this.makeTabStop(this.at);
    this.refresh();
    if (isFocused && !this.element.contains(document.activeElement)) this.focus(this.at);
  }

  topOf(line) {
    return this.element.getBoundingClientRect().top + line.top;
  }

  // Returns the first row of images that is in sight.
  topInSight() {
    const above = stuck() - this.element.getBoundingClientRect().top;
    return this.between(above + 1, above + innerHeight).find((line) => line.from !== undefined);
  }

  // Scrolls to an image, or to the heading above it.
  jump(i) {
    const at = this.lineOf(i);
    const line = this.lines[at - 1]?.heading === undefined ? this.lines[at] : this.lines[at - 1];
    if (!line) return;
    scrollBy({ top: this.topOf(line) - stuck(), behavior: "instant" });
    this.draw();
    this.makeTabStop(i);
  }

  layout() {
    const width = Math.floor(this.element.clientWidth);
    this.lines = []; // rows { top, height, from, widths } and headings { top, height, heading }
    let [from, top] = [0, 0];
    const fill = (to) => {
      const target = width < 640 ? 150 : 220;
      for (const row of rows(this.images.slice(from, to).map(shapeOf), width, target, GAP)) {
        this.lines.push({ top, from, ...row });
        top += row.height + GAP;
        from += row.widths.length;
      }
    };
    for (let i = 0; width && i < this.images.length; i += 1) {
      const heading = this.headingOf(this.images[i], this.images[i - 1]);
      if (heading === null) continue;
      fill(i);
      this.lines.push({ top, height: HEADING, heading });
      top += HEADING;
    }
    if (width) fill(this.images.length);
    this.element.style.height = `${Math.max(0, top - GAP)}px`;
    this.element.querySelectorAll(".heading").forEach((heading) => heading.remove());
    this.headings = new Map();
    this.draw();
  }

  // Returns the lines between two heights.
  between(from, to) {
    let [low, high] = [0, this.lines.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.lines[middle].top + this.lines[middle].height < from) low = middle + 1;
      else high = middle;
    }
    const found = [];
    for (let i = low; i < this.lines.length && this.lines[i].top <= to; i += 1) found.push(this.lines[i]);
    return found;
  }

  draw() {
    const above = -this.element.getBoundingClientRect().top;
    const lines = this.between(above - NEAR * innerHeight, above + (1 + NEAR) * innerHeight);
    const focused = document.activeElement?.closest?.(".tile");
    const left = new Map(this.drawn);
    const headings = new Map(this.headings);
    let next = null; // in the document, whose order screen readers follow
    for (const line of lines.reverse()) {
      if (line.heading !== undefined) {
        if (!headings.delete(line.top)) this.headings.set(line.top, this.drawHeading(line, next));
        next = this.headings.get(line.top);
        continue;
      }
      let x = line.widths.reduce((sum, width) => sum + width + GAP, 0);
      for (let j = line.widths.length - 1; j >= 0; j -= 1) {
        const i = line.from + j;
        const tile = this.drawn.get(i) ?? this.drawTile(i, next);
        left.delete(i);
        x -= line.widths[j] + GAP;
        // Rounded down, so that rounding never makes the document wider than the window.
        tile.style.width = `${Math.floor(line.widths[j] * 100) / 100}px`;
        tile.style.height = `${line.height}px`;
        tile.style.transform = `translate(${x}px, ${line.top}px)`;
        next = tile;
      }
    }
    for (const [i, tile] of left) {
      if (tile === focused) continue; // removing it would lose the keyboard focus
      this.removeTile(i);
    }
    for (const [top, heading] of headings) {
      heading.remove();
      this.headings.delete(top);
    }
    const last = this.lines.at(-1);
    if (this.images.length && last && above + 3 * innerHeight > last.top) this.onEnd();
    clearTimeout(this.settling);
    this.settling = setTimeout(() => this.settled(), SETTLED);
  }

  settled() {
    const missing = [...this.drawn.keys()].map((i) => this.images[i]).filter(({ id }) => id === undefined);
    if (missing.length) this.onMissing(missing);
    const top = this.topInSight();
    if (top) this.onSight(this.images[top.from]);
  }

  removeTile(i) {
    const tile = this.drawn.get(i);
    this.loads.drop(tile.querySelector("img"));
    tile.remove();
    this.drawn.delete(i);
  }

  drawHeading({ heading, top }, next) {
    const element = document.createElement("h2");
    element.className = "heading";
    element.textContent = heading;
    element.style.transform = `translateY(${top}px)`;
    this.element.insertBefore(element, next);
    return element;
  }

  drawTile(i, next) {
    const image = this.images[i];
    const tile = document.createElement("div");
    tile.className = "tile";
    tile.dataset.i = i;
    const link = document.createElement("a");
    link.tabIndex = i === this.at ? 0 : -1;
    if (image.id === undefined) {
      tile.classList.add("missing");
      tile.append(link);
      this.element.insertBefore(tile, next);
      this.drawn.set(i, tile);
      return tile;
    }
    link.href = this.linkOf(image);
    link.title = image.path;
    const picture = document.createElement("img");
    picture.decoding = "async";
    picture.alt = image.path;
    let hasFailed = false; // the first failure may be due to a busy server
    picture.addEventListener("error", () => {
      if (hasFailed) tile.classList.add("gone");
      else setTimeout(() => tile.isConnected && this.loads.add(picture, thumbnailOf(image)), AGAIN);
      hasFailed = true;
    });
    this.loads.add(picture, thumbnailOf(image));
    link.append(picture);
    tile.append(link, this.pickButton(image), this.stackButton());
    if (image.score !== undefined) {
      const score = document.createElement("span");
      score.className = "score";
      score.textContent = scoreOf(image);
      tile.append(score);
    }
    tile.classList.toggle("less-likely", image.fits === false);
    this.element.insertBefore(tile, next);
    this.drawn.set(i, tile);
    this.mark(tile, image);
    return tile;
  }

  pickButton(image) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "pick";
    button.tabIndex = -1; // the key x does the same
    button.setAttribute("aria-label", `Select ${image.path}`);
    return button;
  }

  // The number of near-duplicates that are stacked beneath an image.
  stackButton() {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "stack";
    button.tabIndex = -1; // the key d does the same
    return button;
  }

  // Shows whether an image is selected, and how many are stacked beneath it.
  mark(tile, image) {
    const picked = this.isPicked(image);
    tile.classList.toggle("picked", picked);
    tile.querySelector(".pick").setAttribute("aria-pressed", picked);
    const [stack, count] = [tile.querySelector(".stack"), image.beneath?.length ?? 0];
    const isOpen = this.hiddenBy(image).length < count;
    stack.hidden = !count;
    stack.textContent = isOpen ? "−" : `+${count}`;
    stack.title = `${isOpen ? "Hide" : "Show"} ${counted(count, "near-duplicate")}`;
    stack.setAttribute("aria-expanded", isOpen);
    stack.setAttribute("aria-label", `${image.path}: ${stack.title}`);
  }

  // Opens or closes a stack. This renumbers the images after it, whose tiles are drawn again.
  toggleStack(i) {
    if (!this.images[i].beneath?.length) return;
    this.onStack(i);
    for (const j of [...this.drawn.keys()]) if (j >= i) this.removeTile(j);
    this.layout();
    this.focus(i);
  }

  // Updates which images are shown as selected, and which as stacks.
  refresh() {
    for (const [i, tile] of this.drawn) if (!tile.classList.contains("missing")) this.mark(tile, this.images[i]);
  }

  lineOf(i) {
    return this.lines.findIndex((line) => line.from <= i && i < line.from + line.widths.length);
  }

  focus(i) {
    const line = this.lines[this.lineOf(i)];
    if (!line) return;
    const top = this.element.getBoundingClientRect().top + line.top;
    if (top < stuck() + 10 || top + line.height > innerHeight - 90) scrollBy({ top: top - innerHeight / 3, behavior: "instant" });
    this.draw();
    this.drawn.get(i)?.querySelector("a").focus({ preventScroll: true });
  }

  makeTabStop(i) {
    for (const other of [this.at, i]) {
      const link = this.drawn.get(other)?.querySelector("a");
      if (link) link.tabIndex = other === i ? 0 : -1;
    }
    this.at = i;
  }

  onClick(event) {
    const tile = event.target.closest(".tile:not(.missing)");
    if (!tile || event.ctrlKey || event.metaKey) return;
    const i = Number(tile.dataset.i);
    if (this.hasSelected) {
      event.preventDefault(); // the end of a long press
      this.hasSelected = false;
      return;
    }
    if (event.target.closest(".stack")) {
      this.toggleStack(i);
      return;
    }
    const taps = this.isTouched && this.isPicking();
    if (taps) event.preventDefault();
    if (taps || event.target.closest(".pick")) {
      this.onPick(i, event.shiftKey);
    } else if (!event.shiftKey) {
      event.preventDefault();
      this.onOpen(i);
    }
  }

  // On a touch screen, a long press selects an image; from then on, every tap does.
  onPress(event) {
    this.hasSelected = false;
    this.isTouched = event.pointerType === "touch"; // which clicks of older browsers do not say
    const tile = this.isTouched && event.target.closest(".tile:not(.missing)");
    if (!tile) return;
    const select = () => {
      this.hasSelected = true;
      this.onPick(Number(tile.dataset.i), false);
    };
    this.pressed = { x: event.clientX, y: event.clientY, timer: setTimeout(select, LONG) };
  }

  onRelease(event) {
    if (!this.pressed) return;
    const { x, y, timer } = this.pressed;
    if (event.type === "pointermove" && Math.hypot(event.clientX - x, event.clientY - y) < 10) return;
    clearTimeout(timer);
    this.pressed = null;
  }

  onKey(event) {
    const tile = event.target.closest(".tile");
    if (!tile || event.ctrlKey || event.metaKey || event.altKey) return;
    const i = Number(tile.dataset.i);
    const key = event.key.toLowerCase(); // with Shift it is a capital
    if (!this.images[i].id && (key === "x" || key === "d")) return;
    if (key === "x") {
      this.onPick(i, event.shiftKey);
      return;
    }
    if (key === "d") {
      this.toggleStack(i);
      return;
    }
    const to = {
      ArrowLeft: () => i - 1,
      ArrowRight: () => i + 1,
      ArrowUp: () => this.beside(i, -1),
      ArrowDown: () => this.beside(i, 1),
      Home: () => 0,
      End: () => this.images.length - 1,
    }[event.key]?.();
    if (to === undefined || !this.images[to]) return;
    event.preventDefault();
    this.focus(to);
  }

  // Returns the image of the row above (-1) or below (1) whose middle is nearest.
  beside(i, direction) {
    let at = this.lineOf(i);
    const middleOf = (line, j) => line.widths.slice(0, j).reduce((sum, width) => sum + width + GAP, line.widths[j] / 2);
    const here = middleOf(this.lines[at], i - this.lines[at].from);
    do at += direction;
    while (this.lines[at]?.heading !== undefined);
    const line = this.lines[at];
    if (!line) return -1;
    const distances = line.widths.map((_, j) => Math.abs(middleOf(line, j) - here));
    return line.from + distances.indexOf(Math.min(...distances));
  }
}

// A justified gallery: rows of equal height that fill the width, each image at its own aspect ratio.

import { thumbnailOf } from "./api.js";

export function rows(ratios, width, target, gap) {
  const result = [];
  let row = [];
  let sum = 0;
  for (const ratio of ratios) {
    row.push(ratio);
    sum += ratio;
    const room = width - gap * (row.length - 1);
    if (sum * target >= room) {
      result.push({ height: room / sum, ratios: row });
      row = [];
      sum = 0;
    }
  }
  if (row.length) result.push({ height: target, ratios: row }); // the last row is not stretched
  return result;
}

// The score, and where the image stood before it was re-ranked.
export function scoreOf({ score, shortlist_rank: before }, digits) {
  return score.toFixed(digits) + (before ? ` · was ${before}` : "");
}

function line(text) {
  const heading = document.createElement("h2");
  heading.className = "line";
  heading.textContent = text;
  return heading;
}

export class Gallery {
  constructor(element, onOpen) {
    this.element = element;
    this.images = [];
    this.onOpen = onOpen;
    new ResizeObserver(() => this.layout()).observe(element);
    element.addEventListener("keydown", (event) => this.onKey(event));
    element.addEventListener("focusin", (event) => this.makeTabStop(event.target.closest(".tile")));
  }

  show(images) {
    this.images = images;
    this.element.replaceChildren(...images.map((image, i) => this.tile(image, i)));
    const hardly = this.tiles.filter((_, i) => images[i].fits === false);
    hardly[0]?.before(line("These hardly fit"));
    this.layout();
  }

  get tiles() {
    return [...this.element.querySelectorAll(".tile")];
  }

  focus(i) {
    this.tiles[i]?.focus();
  }

  tile(image, i) {
    const tile = document.createElement("button");
    tile.type = "button";
    tile.className = image.fits === false ? "tile hardly" : "tile";
    tile.tabIndex = i === 0 ? 0 : -1; // one tab stop; arrows move within
    tile.title = image.path;
    const fits = scoreOf(image, 2);
    tile.setAttribute("aria-label", `${image.path}, score ${fits}`);
    const picture = document.createElement("img");
    picture.loading = "lazy";
    picture.decoding = "async";
    picture.alt = "";
    picture.addEventListener("error", () => tile.classList.add("gone"));
    picture.src = thumbnailOf(image);
    const score = document.createElement("span");
    score.className = "score";
    score.textContent = fits;
    tile.append(picture, score);
    tile.addEventListener("click", () => this.onOpen(i));
    return tile;
  }

  layout() {
    const width = Math.floor(this.element.clientWidth);
    if (!width) return;
    const gap = Number.parseFloat(getComputedStyle(this.element).columnGap) || 0;
    const target = width < 640 ? 150 : 220;
    const ratios = this.images.map((image) => Math.min(Math.max(image.width / image.height, 0.4), 3.5));
    const tiles = this.tiles;
    let i = 0;
    const fitting = this.images.findIndex((image) => image.fits === false);
    const parts = fitting < 0 ? [ratios] : [ratios.slice(0, fitting), ratios.slice(fitting)];
    for (const row of parts.flatMap((part) => rows(part, width, target, gap))) {
      for (const ratio of row.ratios) {
        // Rounded down, so that rounding never pushes the last image of a row to the next.
        tiles[i].style.width = `${Math.floor(ratio * row.height * 100) / 100}px`;
        tiles[i].style.height = `${row.height}px`;
        i += 1;
      }
    }
  }

  makeTabStop(tile) {
    if (!tile) return;
    for (const other of this.tiles) other.tabIndex = other === tile ? 0 : -1;
  }

  onKey(event) {
    const tiles = this.tiles;
    const i = tiles.indexOf(event.target);
    const to = {
      ArrowLeft: () => i - 1,
      ArrowRight: () => i + 1,
      ArrowUp: () => this.above(tiles, i, -1),
      ArrowDown: () => this.above(tiles, i, 1),
      Home: () => 0,
      End: () => tiles.length - 1,
    }[event.key]?.();
    if (to === undefined || !tiles[to]) return;
    event.preventDefault();
    tiles[to].focus();
  }

  above(tiles, i, direction) {
    const here = tiles[i].getBoundingClientRect();
    const middle = here.left + here.width / 2;
    let best = -1;
    let bestDistance = Infinity;
    for (let j = i + direction; tiles[j]; j += direction) {
      const there = tiles[j].getBoundingClientRect();
      const rowsAway = Math.round(Math.abs(there.top - here.top));
      if (rowsAway < 2) continue;
      if (best >= 0 && Math.abs(there.top - tiles[best].getBoundingClientRect().top) > 2) break;
      const distance = Math.abs(there.left + there.width / 2 - middle);
      if (distance < bestDistance) [best, bestDistance] = [j, distance];
    }
    return best;
  }
}

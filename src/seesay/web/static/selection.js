// The selected images, to download as a list or a zip.

import { archiveOf } from "./api.js";
import { number } from "./words.js";

const MOST_ZIPPED = 500;

export class Selection {
  constructor(bar, { hiddenBy, onChange }) {
    Object.assign(this, { bar, hiddenBy, onChange });
    this.images = new Map();
    this.last = null; // the id of the last selected image
    this.index = null; // of the images; ids have no meaning in another index
    bar.querySelector('[data-do="list"]').addEventListener("click", () => this.downloadList());
    bar.querySelector('[data-do="clear"]').addEventListener("click", () => this.clear());
    bar.querySelector('[data-do="zip"]').addEventListener("click", () => {
      save(archiveOf([...this.images.keys()]), "images.zip");
    });
  }

  has({ id }) {
    return this.images.has(id);
  }

  // Selects or deselects the i-th image with those hidden beneath it; with `toThere`, selects all from the last one to it.
  pick(images, i, toThere) {
    const all = (chosen) => chosen.flatMap((each) => [each, ...this.hiddenBy(each)]);
    const before = toThere ? images.findIndex(({ id }) => id === this.last) : -1;
    const isRange = before >= 0;
    const [from, to] = isRange ? [before, i].sort((a, b) => a - b) : [i, i];
    const isTakenBack = !isRange && this.has(images[i]);
    for (const each of all(images.slice(from, to + 1))) {
      if (isTakenBack) this.images.delete(each.id);
      else this.images.set(each.id, each);
    }
    this.last = images[i].id;
    this.show();
  }

  // Sets the index of the images; the selection in another index is cleared.
  use(index) {
    if (index !== this.index) this.clear();
    this.index = index;
  }

  clear() {
    this.images.clear();
    this.last = null;
    this.show();
  }

  show() {
    const count = this.images.size;
    this.bar.hidden = count === 0;
    this.bar.querySelector("#selected").textContent = `${number(count)} selected`;
    const zip = this.bar.querySelector('[data-do="zip"]');
    zip.disabled = count > MOST_ZIPPED;
    zip.title = zip.disabled ? `A zip can hold at most ${MOST_ZIPPED} images.` : "Download zip";
    this.onChange();
  }

  downloadList() {
    const lines = [...this.images.values()].map(({ path }) => `${path}\n`);
    const address = URL.createObjectURL(new Blob(lines, { type: "text/plain" }));
    save(address, "images.txt");
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }
}

function save(address, name) {
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
}

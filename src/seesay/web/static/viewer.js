// One image, large, in a dialog: the browser keeps focus inside and closes it with Esc.

import { originalOf, thumbnailOf } from "./api.js";
import { scoreOf } from "./gallery.js";
import { Pointer } from "./pointer.js";

export class Viewer {
  constructor(dialog, { onSimilar, onClose }) {
    this.dialog = dialog;
    this.picture = dialog.querySelector("figure img");
    this.path = dialog.querySelector("#viewer-path");
    this.pointer = new Pointer(dialog.querySelector("figure"));
    this.facts = dialog.querySelector("#viewer-facts");
    this.images = [];
    this.at = 0;
    this.actions = {
      previous: () => this.go(this.at - 1),
      next: () => this.go(this.at + 1),
      close: () => dialog.close(),
      similar: () => {
        const image = this.images[this.at];
        dialog.close();
        onSimilar(image);
      },
    };
    dialog.addEventListener("click", (event) => this.onClick(event));
    dialog.addEventListener("keydown", (event) => {
      if (event.target.matches("input")) return;
      const action = { ArrowLeft: "previous", ArrowRight: "next" }[event.key];
      if (action) this.actions[action]();
    });
    dialog.addEventListener("close", () => {
      this.pointer.clear();
      onClose(this.at);
    });
  }

  open(images, at, sentence) {
    this.images = images;
    this.pointer.start(sentence);
    this.go(at);
    this.dialog.showModal();
    this.dialog.querySelector('[data-do="close"]').focus();
  }

  go(at) {
    const image = this.images[at];
    if (!image) return;
    this.at = at;
    // Formats that browsers do not show (TIFF, JPEG 2000) have a thumbnail all the same.
    this.picture.onerror = () => {
      this.picture.onerror = null;
      this.picture.src = thumbnailOf(image);
    };
    this.picture.src = originalOf(image);
    this.picture.alt = image.path;
    this.path.textContent = image.path;
    this.facts.textContent = image.file ? "" : `${image.width} × ${image.height} · score ${scoreOf(image, 3)}`;
    this.dialog.querySelector('[data-do="similar"]').hidden = Boolean(image.file);
    this.pointer.show(image);
    this.dialog.querySelector('[data-do="previous"]').disabled = at === 0;
    this.dialog.querySelector('[data-do="next"]').disabled = at === this.images.length - 1;
  }

  onClick(event) {
    const button = event.target.closest("[data-do]");
    if (button) this.actions[button.dataset.do]();
    else if (event.target.matches("dialog, figure, nav")) this.dialog.close();
  }
}

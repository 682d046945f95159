// Stacks of near-duplicates: the first image of a group is shown, with the number of others beneath it.

import * as api from "./api.js";
import { keep, recall } from "./kept.js";

const KEPT = "seesay-stacks";
const MOST = 20_000; // images of an index; in larger ones, near-duplicates are only found on request
const PATIENCE = 400; // milliseconds by which the first images are delayed at most

export class Stacks {
  constructor() {
    this.groups = new Map(); // numbers of groups by the id of an image
    this.opened = new Set(); // groups whose images are shown side by side
  }

  get isWanted() {
    return recall(KEPT) !== "no";
  }

  want(wanted) {
    keep(KEPT, wanted ? "" : "no");
  }

  // Loads which images of an index look alike; if that takes long, they are stacked from the next question on.
  learn(images) {
    const known = (this.groups = new Map()); // a new map, as a late answer may be for the previous index
    this.opened.clear();
    if (!this.isWanted || !(images >= 2 && images <= MOST)) return Promise.resolve();
    const learned = api.duplicates().then(({ groups }) => {
      for (const [number, group] of groups.entries()) for (const { id } of group) known.set(id, number);
    }, () => {}); // without them every image is shown
    return Promise.race([learned, new Promise((later) => setTimeout(later, PATIENCE))]);
  }

  // Returns a function that adds images to those that are shown. Only images of the same section, such as a month, are stacked:
  // the first one knows the others as `beneath`, also while its stack is open and they are shown after it.
  adder(sectionOf) {
    const tops = new Map();
    return (shown, images) => {
      for (const image of images) {
        const number = this.groups.get(image.id);
        const place = `${number} ${sectionOf(image)}`;
        const top = number === undefined ? null : tops.get(place);
        if (top) {
          (top.beneath ??= []).push(image);
          if (this.opened.has(number)) shown.splice(shown.indexOf(top) + top.beneath.length, 0, image);
        } else {
          tops.set(place, image);
          shown.push(image);
        }
      }
    };
  }

  // Returns the images that are shown of all these.
  stacked(images, sectionOf) {
    const shown = [];
    for (const image of images) delete image.beneath;
    this.adder(sectionOf)(shown, images);
    return shown;
  }

  // Returns the images that lie unseen beneath an image.
  hiddenBy({ id, beneath = [] }) {
    return this.opened.has(this.groups.get(id)) ? [] : beneath;
  }

  // Opens the stack of the i-th image in its place, or closes it.
  toggle(shown, i) {
    const [number, hidden] = [this.groups.get(shown[i].id), this.hiddenBy(shown[i])];
    if (this.opened.delete(number)) shown.splice(i + 1, shown[i].beneath.length);
    else {
      this.opened.add(number);
      shown.splice(i + 1, 0, ...hidden);
    }
  }
}

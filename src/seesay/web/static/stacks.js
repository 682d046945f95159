// Near-duplicates lie in stacks: the first image of a group is shown, and says how many others lie beneath it.

import * as api from "./api.js";
import { keep, recall } from "./kept.js";

const KEPT = "seesay-stacks";
const MOST = 20_000; // images of an index that the server compares without being asked to
const PATIENCE = 400; // milliseconds for which the first images wait

export class Stacks {
  constructor() {
    this.groups = new Map(); // the number of its group by the id of an image
    this.opened = new Set(); // groups that are shown side by side
  }

  get isWanted() {
    return recall(KEPT) !== "no";
  }

  want(wanted) {
    keep(KEPT, wanted ? "" : "no");
  }

  // Learns which images of an index look alike; where that takes long, they are stacked from the next question on.
  learn(images) {
    const known = (this.groups = new Map()); // an answer that comes late is not of the next index
    this.opened.clear();
    if (!this.isWanted || images < 2 || images > MOST) return Promise.resolve();
    const learned = api.duplicates().then(({ groups }) => {
      for (const [number, group] of groups.entries()) for (const { id } of group) known.set(id, number);
    }, () => {}); // without them every image is shown
    return Promise.race([learned, new Promise((later) => setTimeout(later, PATIENCE))]);
  }

  // Returns what adds images to those that are shown. Only images of one section are stacked, such as of a month.
  adder(sectionOf) {
    const tops = new Map();
    return (shown, images) => {
      for (const image of images) {
        const number = this.groups.get(image.id);
        const place = `${number} ${sectionOf(image)}`;
        const top = number === undefined || this.opened.has(number) ? null : tops.get(place);
        if (top) (top.beneath ??= []).push(image);
        else {
          tops.set(place, image);
          shown.push(image);
        }
      }
    };
  }

  // Lays out the images beneath the i-th beside it.
  open(shown, i) {
    const { id, beneath } = shown[i];
    this.opened.add(this.groups.get(id));
    shown[i].beneath = [];
    shown.splice(i + 1, 0, ...beneath);
  }
}

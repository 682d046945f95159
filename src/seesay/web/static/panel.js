// The panel: the index, its counts and its update, files that could not be read, and settings.

import * as api from "./api.js";
import { ALL, go, read } from "./state.js";
import { counted, number } from "./words.js";

const OFTEN = 700; // milliseconds between two requests for the state of an update
const SELDOM = 5000; // and of an index that is not being updated, as far as is known
const pause = (time = OFTEN) => new Promise((later) => setTimeout(later, time));

// Returns the progress of an update in words.
export const progressOf = ({ done, total }) =>
  total ? `${number(done)} of ${number(total)} new or changed photos` : "Scanning the folder…";

export class Panel {
  // `onProgress(state)` is called with every state of an update, `onUpdated()` when an update has ended or others have changed the index;
  // `isStacked()` and `onStacked(wanted)`: whether near-duplicates are stacked.
  constructor(dialog, { onProgress, onUpdated, isStacked, onStacked }) {
    Object.assign(this, { dialog, onProgress, onUpdated, isStacked });
    this.status = null;
    this.following = null; // the latest call of `follow`
    this.sawUpdate = false;
    const find = (selector) => dialog.querySelector(selector);
    [this.choice, this.counts, this.start] = [find("#index"), find("#counts"), find("#update")];
    [this.progress, this.how, this.faults] = [find("progress"), find("#update-state"), find("#faults")];
    [this.stacked, this.logout] = [find("#stacked"), find("#logout")];
    this.stacked.addEventListener("change", () => onStacked(this.stacked.checked));
    this.choice.addEventListener("change", () => {
      go({ ...ALL, index: this.choice.value });
      dialog.close();
    });
    this.start.addEventListener("click", () => this.update().catch((failure) => (this.how.textContent = failure.message)));
    find("#near").addEventListener("click", () => {
      dialog.close();
      go({ ...ALL, near: "1" });
    });
    find('[data-do="close"]').addEventListener("click", () => dialog.close());
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  }

  // Takes the served indexes; returns the one that the address names, or the first.
  take(indexes) {
    this.choice.replaceChildren(...indexes.map(({ index }) => new Option(index, index)));
    this.choice.parentElement.hidden = indexes.length < 2;
    const before = this.status;
    this.status = indexes.find(({ index }) => index === read().index) ?? indexes[0];
    this.choice.value = this.status.index;
    this.count();
    if (this.status?.index !== before?.index) [this.following, this.sawUpdate] = [null, false];
    return this.status;
  }

  async open() {
    this.dialog.showModal();
    this.stacked.checked = this.isStacked();
    this.take(await api.indexes());
    await this.describe();
  }

  // Shows the counts of the index.
  count() {
    const { images, sentences, not_read: notRead, absent } = this.status;
    const counts = [counted(images, "image"), sentences ? counted(sentences, "sentence") : null];
    const away = absent.map((name) => `“${name}” is not available right now; its photos stay in the index`);
    this.counts.textContent = [...counts, ...notRead, ...away].filter(Boolean).join(" · ");
    this.start.hidden = !this.status.updating;
    this.logout.hidden = !this.status.login;
  }

  async describe() {
    this.follow().catch((failure) => (this.how.textContent = failure.message));
    this.listFaults((await api.faults()).faults);
  }

  listFaults(faults) {
    this.faults.parentElement.hidden = Object.keys(faults).length === 0;
    this.faults.parentElement.querySelector("summary").textContent = `${counted(Object.keys(faults).length, "file")} could not be read`;
    this.faults.replaceChildren(...Object.entries(faults).map(([path, reason]) => {
      const line = document.createElement("li");
      line.textContent = `${path}: ${reason}`;
      return line;
    }));
  }

  async update() {
    await api.update();
    this.sawUpdate = true; // also one that ends at once
    this.follow().catch(() => {});
  }

  // Shows the progress of updates, and tells of changes of the index by others. A later call, or another index, stops earlier calls.
  async follow() {
    const mine = (this.following = {});
    let generation = null;
    for (;;) {
      const isFirst = generation === null && !this.sawUpdate;
      const state = await api.updateState().catch((failure) => (isFirst ? Promise.reject(failure) : null));
      if (mine !== this.following) return;
      if (state === null) { // the server will be back
        await pause(this.sawUpdate ? OFTEN : SELDOM);
        continue;
      }
      const isOther = generation !== null && state.generation !== generation;
      generation = state.generation;
      const { running, done, total, added, deleted, error, seconds } = state;
      this.onProgress(state);
      this.start.disabled = running;
      this.progress.hidden = !running;
      if (!running) {
        const ended = seconds === null ? "" : `Up to date: ${number(added)} new or changed, ${number(deleted)} removed.`;
        this.how.textContent = error || ended;
        if (this.sawUpdate) {
          this.sawUpdate = false;
          this.onUpdated();
          api.faults().then(({ faults }) => this.listFaults(faults), () => {});
        } else if (isOther) this.onUpdated();
        await pause(SELDOM);
        while (document.hidden) await pause(SELDOM);
        if (mine !== this.following) return;
        continue;
      }
      this.sawUpdate = true;
      if (total) [this.progress.value, this.progress.max] = [done, total];
      else this.progress.removeAttribute("value");
      this.how.textContent = progressOf(state);
      await pause();
      if (mine !== this.following) return;
    }
  }
}

// Lists of images that are fetched as needed: the results of a search page by page, or all photos by date.

const SIZE = 100; // images of a page
const KEPT = 20; // pages that are fetched again when the index has changed
const SHAPE = { width: 4, height: 3 }; // of an image that is not known yet

export class Pages {
  // `fetchPage(cursor, signal)` returns `results` and the cursor `next`, null after the last page;
  // `add(images, results)` adds the results to the images that are shown.
  constructor(fetchPage, add = (images, results) => images.push(...results)) {
    Object.assign(this, { fetchPage, add });
    this.images = [];
    this.next = null;
    this.isComplete = false;
    this.leaving = new AbortController();
    this.fetching = null;
  }

  // Fetches the next page; concurrent calls share one request. Returns the answer; null after the last page.
  more() {
    if (this.isComplete) return Promise.resolve(null);
    this.fetching ??= this.fetch().finally(() => (this.fetching = null));
    return this.fetching;
  }

  async fetch() {
    const answer = await this.fetchPage(this.next, this.leaving.signal);
    this.add(this.images, answer.results);
    this.next = answer.next;
    this.isComplete = answer.next === null;
    return answer;
  }

  leave() {
    this.leaving.abort();
  }
}

// All photos by date, newest first. Their number in each month is known at once, so that the page has its full height; images
// come into it as they are scrolled to.
export class Timeline {
  // `fetchMonths(signal)` returns `counts`, `fetchPage({ offset, limit }, signal)` returns `results`; `stacked(images)` returns those
  // that are shown.
  constructor(fetchMonths, fetchPage, stacked) {
    Object.assign(this, { fetchMonths, fetchPage, stacked });
    this.images = [];
    this.slots = []; // one for each image; without an id until it is known
    this.months = [];
    this.isComplete = false;
    this.leaving = new AbortController();
    this.fetching = new Map(); // pages by number
  }

  // Fetches the months, the first page, and the last ones of `known`, the timeline that this one replaces. Returns the first page;
  // null when it is called again.
  async more(known = null) {
    if (this.isComplete) return null;
    this.months = (await this.fetchMonths(this.leaving.signal)).counts;
    this.slots = this.months.flatMap(({ name, images }) => Array.from({ length: images }, () => ({ time: name, ...SHAPE })));
    const numbers = new Set([0, ...[...(known?.fetching.keys() ?? [])].slice(-KEPT)]);
    const there = [...numbers].filter((number) => !number || number * SIZE < this.slots.length);
    const [first] = await Promise.all(there.map((number) => this.fetch(number)));
    this.isComplete = true;
    this.images = this.stacked(this.slots);
    return first;
  }

  // Fetches the pages of images that are shown but not known yet. Returns whether that changed anything.
  async fill(images) {
    const places = new Map(this.slots.map((slot, i) => [slot, i]));
    const numbers = new Set(images.filter((image) => places.has(image)).map((image) => Math.floor(places.get(image) / SIZE)));
    const fetched = [...numbers].filter((number) => !this.fetching.has(number)).map((number) => this.fetch(number));
    if (!fetched.length) return false;
    await Promise.all(fetched);
    this.images = this.stacked(this.slots);
    return true;
  }

  fetch(number) {
    const asked = this.fetchPage({ offset: number * SIZE, limit: SIZE }, this.leaving.signal).then((answer) => {
      answer.results.forEach((image, i) => {
        const slot = this.slots[number * SIZE + i];
        if (slot) Object.assign(slot, image); // else it has come since the months were counted
      });
      const last = number * SIZE + answer.results.length;
      if (answer.results.length < SIZE) this.slots.length = Math.min(last, this.slots.length); // the others are gone since then
      return answer;
    });
    asked.catch(() => this.fetching.delete(number));
    this.fetching.set(number, asked);
    return asked;
  }

  leave() {
    this.leaving.abort();
  }
}

// Thumbnails are fetched a few at a time, those that were drawn last first: what is seen comes before what has passed by,
// and a server behind a proxy, which would take hundreds at once, keeps connections for others.

const MOST = 16;

export class Loads {
  constructor() {
    this.waiting = new Map(); // addresses by picture
    this.loading = new Set();
  }

  add(picture, address) {
    this.waiting.set(picture, address);
    for (const end of ["load", "error"]) picture.addEventListener(end, () => this.drop(picture), { once: true });
    this.next();
  }

  // It has come, or is not wanted any more.
  drop(picture) {
    this.waiting.delete(picture);
    if (this.loading.delete(picture) && !picture.complete) picture.removeAttribute("src"); // ends the fetch
    this.next();
  }

  next() {
    while (this.loading.size < MOST && this.waiting.size) {
      const [picture, address] = [...this.waiting].at(-1);
      this.waiting.delete(picture);
      this.loading.add(picture);
      picture.src = address;
    }
  }
}

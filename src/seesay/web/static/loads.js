// Thumbnails are fetched a few at a time, and those drawn last first, so that visible images come before those that were
// scrolled past. A proxy would accept hundreds at once and leave the server no connections for other clients.

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

  // Called when a picture has loaded, or is no longer needed.
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

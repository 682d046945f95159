// An endless list of images, of which one page after the other is fetched as it is needed.

export class Pages {
  // `fetchPage(cursor, signal)` answers with `results` and the cursor `next`, null after the last page;
  // `add(images, results)` adds those to the images that are shown.
  constructor(fetchPage, add = (images, results) => images.push(...results)) {
    Object.assign(this, { fetchPage, add });
    this.images = [];
    this.next = null;
    this.isComplete = false;
    this.leaving = new AbortController();
    this.fetching = null;
  }

  // Fetches a page more; callers meanwhile wait for the same one. Returns its answer, null if there is none.
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

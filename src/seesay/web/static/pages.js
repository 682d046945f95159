// A list of images that is fetched page by page, as needed.

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

// Settings that this browser stores. If it may not store anything, every access throws.

export function recall(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

export function keep(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // The setting lasts until the page is left.
  }
}

// Settings that this browser keeps; one that may keep nothing throws at every access.

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
    // It holds until the page is left.
  }
}

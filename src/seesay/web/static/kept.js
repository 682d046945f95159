// Settings that this browser stores. If it may not store anything, every access throws, and they last until the page is left.

const here = new Map();

export function recall(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return here.get(name) ?? null;
  }
}

export function keep(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    here.set(name, value);
  }
}

// Dropped files. The browser stores the last ones, so that their addresses can be opened again.

const KEPT = 20;
const UPLOAD_MB = 20;
const SIDE = 1024; // pixels of the longer side to which images in larger files are scaled down

function request(mode, work) {
  return new Promise((done, failed) => {
    const opening = indexedDB.open("seesay", 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore("files");
    opening.onerror = () => failed(opening.error);
    opening.onsuccess = () => {
      const transaction = opening.result.transaction("files", mode);
      const asked = work(transaction.objectStore("files"));
      transaction.oncomplete = () => {
        opening.result.close();
        done(asked.result);
      };
      transaction.onabort = () => failed(transaction.error); // as by an error, or if the disk is full
    };
  });
}

const remembered = new Map(); // for browsers that store nothing: lasts until the page is left

// Stores a file and returns its key. Keys grow with time, so that the oldest files are deleted first.
export async function keep(file) {
  const key = Date.now().toString(36) + Math.random().toString(36).slice(2, 8);
  remembered.set(key, file);
  try {
    await request("readwrite", (store) => store.put(file, key));
    const keys = await request("readonly", (store) => store.getAllKeys());
    for (const old of keys.sort().slice(0, -KEPT)) await request("readwrite", (store) => store.delete(old));
  } catch {
    // A private window may store nothing.
  }
  return key;
}

export async function find(key) {
  if (remembered.has(key)) return remembered.get(key);
  return (await request("readonly", (store) => store.get(key)).catch(() => null)) ?? null;
}

export const mayBeImage = (file) => !file.type || file.type.startsWith("image/");

// Returns a file that the server accepts: one that is too large is scaled down, as a search does anyway.
export async function sendable(file) {
  if (file.size <= UPLOAD_MB * 2 ** 20) return file;
  const picture = await createImageBitmap(file).catch(() => {
    const why = `This file is too large: your browser cannot reduce it, and the server takes ${UPLOAD_MB} MB.`;
    throw Object.assign(new Error(why), { status: 413 });
  });
  const scale = Math.min(1, SIDE / Math.max(picture.width, picture.height));
  const canvas = new OffscreenCanvas(Math.round(picture.width * scale), Math.round(picture.height * scale));
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  picture.close();
  return new File([await canvas.convertToBlob({ type: "image/jpeg", quality: 0.92 })], file.name);
}

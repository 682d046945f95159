// Requests to the server. Every failure becomes an Error with a message for the user.

const ROOT = "api/v1";
const DAMAGED = /^the image: (\w+ or damaged \(.*\)|cannot be decoded|empty, 0 bytes)\.$/; // what the server says of an upload
export const NOT_AN_IMAGE = "This file can't be opened: unsupported or damaged.";
let index = null;

// Sets the index to query; null for the server's first.
export function use(name) {
  index = name;
}

function address(path, query = {}) {
  const given = Object.entries({ index, ...query }).filter(([, value]) => value !== null && value !== "" && value !== false);
  return `${ROOT}${path}${given.length ? `?${new URLSearchParams(given)}` : ""}`;
}

async function ask(where, options) {
  let response;
  try {
    response = await fetch(where, options);
  } catch (failure) {
    if (failure.name === "AbortError") throw failure;
    throw new Error("The server can't be reached. Is seesay serve still running?");
  }
  const { status } = response;
  if (status === 401) {
    location.reload(); // the cookie has expired: the same address asks for the token
    return new Promise(() => {});
  }
  if (response.ok && response.headers.get("content-type") === "image/jpeg") return response.blob();
  const body = await response.json().catch((failure) => {
    if (failure.name === "AbortError") throw failure;
    return null; // cut off, or the page of a proxy
  });
  if (response.ok && body) return body;
  const detail = body?.detail ?? `The server responded with status ${status}.`;
  throw Object.assign(new Error(DAMAGED.test(detail) ? NOT_AN_IMAGE : detail), { status });
}

function upload(where, file, signal) {
  const body = new FormData();
  body.append("image", file, file.name || "image");
  return ask(where, { method: "POST", body, signal });
}

export const indexes = () => ask(address("/indexes"));
export const folders = (signal) => ask(address("/images/folders"), { signal });
export const months = (query, signal) => ask(address("/images/months", query), { signal });
export const newest = (query, signal) => ask(address("/images", query), { signal });
export const duplicates = (signal) => ask(address("/images/duplicates"), { signal });
export const typed = (q) => ask(address("/typed", { q }));
export const search = (query, signal) => ask(address("/search", query), { signal });
export const searchWith = (file, query, signal) => upload(address("/search", query), file, signal);
export const sentences = (file, query, signal) => upload(address("/sentences", query), file, signal);
export const facts = (id, signal) => ask(address(`/images/${id}`), { signal });
export const faults = () => ask(address("/faults"));
export const updateState = () => ask(address("/update"));
export const update = () => ask(address("/update"), { method: "POST" });

export const ground = ({ id, file }, q, signal) =>
  file ? upload(address("/ground", { q }), file, signal) : ask(address(`/images/${id}/ground`, { q }), { signal });

export const originalOf = ({ id }) => address(`/images/${id}/original`);
export const jpegOfFile = (file) => upload(`${ROOT}/images/jpeg`, file);
export const viewOf = ({ id }) => address(`/images/${id}/view`);
export const thumbnailOf = ({ id }) => address(`/images/${id}/thumbnail`);
export function archiveOf(ids) {
  const query = new URLSearchParams(ids.map((id) => ["id", id]));
  return `${address("/images/archive")}${index ? "&" : "?"}${query}`;
}

// Questions to the server. Every failure becomes an Error whose message a person can read.

async function ask(address, options) {
  let response;
  try {
    response = await fetch(address, options);
  } catch (failure) {
    if (failure.name === "AbortError") throw failure;
    throw new Error("The server cannot be reached. Is seesay serve still running?");
  }
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(body.detail ?? `The server answered ${response.status}.`);
  return body;
}

function upload(address, file, signal) {
  const body = new FormData();
  body.append("image", file, file.name || "image");
  return ask(address, { method: "POST", body, signal });
}

export const status = () => ask("api/v1/status");
// A question has a sentence, a file, or both; the filter may be empty.
export function search({ sentence, file }, k, where, rerank, signal) {
  const address = `api/v1/search?${new URLSearchParams({ q: sentence ?? "", limit: k, where, ...(file ? {} : { rerank }) })}`;
  return file ? upload(address, file, signal) : ask(address, { signal });
}
export const sentences = (file, k, rerank, signal) => upload(`api/v1/sentences?limit=${k}&rerank=${rerank}`, file, signal);

export function ground(image, sentence, signal) {
  const query = new URLSearchParams({ q: sentence });
  return image.file ? upload(`api/v1/ground?${query}`, image.file, signal) : ask(`api/v1/images/${image.id}/ground?${query}`, { signal });
}

export async function original(image) {
  const response = await fetch(originalOf(image));
  if (!response.ok) throw new Error("The file of this image is gone. Update the index.");
  return new File([await response.blob()], image.path);
}

export const originalOf = (image) => image.image ?? `api/v1/images/${image.id}/original`;
export const thumbnailOf = (image) => image.thumbnail ?? `api/v1/images/${image.id}/thumbnail`;

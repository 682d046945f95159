// Numbers, counted nouns, and what several parts of the page say.

const format = new Intl.NumberFormat("en");
export const number = (value) => format.format(value);
export const counted = (count, noun, nouns = `${noun}s`) => `${number(count)} ${count === 1 ? noun : nouns}`;

export const correction = (typed, meant) => `Showing results for “${meant}” instead of “${typed}”`;

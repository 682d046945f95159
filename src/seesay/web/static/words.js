// Numbers and counted nouns.

const format = new Intl.NumberFormat("en");
export const number = (value) => format.format(value);
export const counted = (count, noun, nouns = `${noun}s`) => `${number(count)} ${count === 1 ? noun : nouns}`;
